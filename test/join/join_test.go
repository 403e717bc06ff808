// Package join tests joins with real processes: each side is killed after every step.
// It needs nothing but this program, which it builds.
package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const patience = 90 * time.Second

// node is a sidecar with an etcd member.
type node struct {
	t       *testing.T
	program string
	name    string
	dir     string
	flags   []string
	cmd     *exec.Cmd
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: local, context: {cluster: local, user: local}}]
users: [{name: local, user: {}}]
current-context: local
`

func newNode(t *testing.T, program, name string) *node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, program: program, name: name, dir: filepath.Join(t.TempDir(), "data")}
	n.flags = []string{
		"--node-id=" + name, "--etcd=embedded", "--data-dir=" + n.dir, "--node-address=127.0.0.1",
		"--listen=127.0.0.1:0", "--shutdown-delay=0s", "--kubeconfig=" + file, "--bundle=builtin",
	}
	for _, flag := range []string{"peer", "client", "join"} {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		n.flags = append(n.flags, fmt.Sprintf("--%s-port=%s", flag, addr[strings.LastIndex(addr, ":")+1:]))
	}
	return n
}

// withoutVariables removes what is for this test: a sidecar refuses to start with a
// variable LOCKSTEP_... that is not its own.
func withoutVariables(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_") })
}

// start starts the sidecar; it ends itself after a step, if that is not empty.
func (n *node) start(exitAfter string, more ...string) {
	n.t.Helper()
	log, err := os.OpenFile(n.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = exec.Command(n.program, append(append([]string{"run"}, n.flags...), more...)...) //nolint:noctx // stop ends it
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.Env = append(withoutVariables(os.Environ()), "LOCKSTEP_EXIT_AFTER_STEP="+exitAfter)
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd := n.cmd
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if n.t.Failed() {
			text, _ := os.ReadFile(n.dir + ".log")
			n.t.Logf("%s:\n%s", n.name, text)
		}
	})
}

// awaitKilled waits until the sidecar has ended itself.
func (n *node) awaitKilled() {
	n.t.Helper()
	ended := make(chan error, 1)
	cmd := n.cmd
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		exit, is := errors.AsType[*exec.ExitError](err)
		if !is || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			n.t.Fatalf("%s ended with %v, want by SIGKILL", n.name, err)
		}
	case <-time.After(patience):
		n.t.Fatalf("%s has not come to that step", n.name)
	}
}

// command runs a command with the data directory of the node.
func (n *node) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, n.program, append(args, "--data-dir="+n.dir)...).Output()
	return string(out), err
}

type member struct {
	ID, Node, Role string
	Healthy        bool
}

func (n *node) members() []member {
	out, err := n.command("cluster", "members", "-o", "json")
	var all []member
	if err != nil || json.Unmarshal([]byte(out), &all) != nil {
		return nil
	}
	return all
}

// awaitVoters waits until exactly so many members vote, all are healthy, and there are
// no others.
func (n *node) awaitVoters(count int) {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	var all []member
	for time.Now().Before(deadline) {
		all = n.members()
		voters := 0
		for _, m := range all {
			if m.Role == "voter" && m.Healthy {
				voters++
			}
		}
		if voters == count && len(all) == count {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	n.t.Fatalf("got the members %+v, want %d voters", all, count)
}

// token creates a token for one node, and returns the flags of the command that is
// printed.
func (n *node) token(more ...string) []string {
	n.t.Helper()
	out, err := n.command(append([]string{"cluster", "token", "create", "-o", "json"}, more...)...)
	var report struct{ Command string }
	if err != nil || json.Unmarshal([]byte(out), &report) != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	flags, err := cluster.JoinFlags(report.Command)
	if err != nil {
		n.t.Fatal(err)
	}
	return flags
}

// wantUsedOnce checks that each token was used by exactly one node.
func (n *node) wantUsedOnce() {
	n.t.Helper()
	out, err := n.command("cluster", "token", "list", "-o", "json")
	var all []struct{ UsedBy []string }
	if err != nil || json.Unmarshal([]byte(out), &all) != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	for _, tok := range all {
		if len(tok.UsedBy) != 1 {
			n.t.Errorf("a token was used by %v, want one node", tok.UsedBy)
		}
	}
}

// TestJoin_joinerKilled: the node that joins is killed after every step, and started
// again with the same flags: it joined once, and no member is left over.
func TestJoin_joinerKilled(t *testing.T) {
	t.Parallel()
	program := cluster.BuildSteps(t)
	for _, step := range []string{"directory", "marker", "key", "enrol", "etcd", "member", "ready", "voter", "authority", "announce", "phase"} {
		t.Run(step, func(t *testing.T) {
			a, b := newNode(t, program, "a"), newNode(t, program, "b")
			a.start("")
			a.awaitVoters(1)
			join := a.token()
			b.start("join/"+step, join...)
			b.awaitKilled()
			b.start("", join...)
			a.awaitVoters(2)
			b.awaitVoters(2)
			a.wantUsedOnce()
		})
	}
}

// TestJoin_notAVoter: a token is refused for another node than its own. A node that has joined,
// and does not vote, has no key of the CA; when it votes, it gets it.
func TestJoin_notAVoter(t *testing.T) {
	t.Parallel()
	program := cluster.BuildSteps(t)
	a, b, evil := newNode(t, program, "a"), newNode(t, program, "b"), newNode(t, program, "evil")
	a.start("")
	a.awaitVoters(1)
	join := a.token("--node=b")
	evil.start("", join...)
	if err := evil.cmd.Wait(); err == nil || !strings.Contains(evil.log(), `it is for node "b", and this node is "evil"`) {
		t.Errorf("the node evil ended with %v: %s", err, evil.log())
	}
	b.start("join/enrol", join...)
	b.awaitKilled()
	dir := datadir.Layout(b.dir).PKI()
	if _, err := pki.ReadCertificate(dir); err != nil {
		t.Errorf("the node has joined: %v", err)
	}
	if _, err := pki.LoadCA(dir); !errors.Is(err, pki.ErrNoKey) {
		t.Errorf("a node that does not vote can sign: %v", err)
	}
	b.start("join/authority", join...)
	b.awaitKilled()
	if _, err := pki.LoadCA(dir); err != nil {
		t.Errorf("a node that votes cannot sign: %v", err)
	}
	b.start("", join...)
	b.awaitVoters(2)
	// The others join at it, too.
	c := newNode(t, program, "c")
	c.start("", b.token()...)
	b.awaitVoters(3)
}

func (n *node) log() string {
	text, err := os.ReadFile(n.dir + ".log")
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// TestJoin_memberKilled: the member that answers is killed after every step of an
// answer, and started again: the node joined once, and no member is left over.
func TestJoin_memberKilled(t *testing.T) {
	t.Parallel()
	program := cluster.BuildSteps(t)
	for _, step := range []string{"check", "token", "lock", "add", "record", "sign", "answer"} {
		t.Run(step, func(t *testing.T) {
			a, b := newNode(t, program, "a"), newNode(t, program, "b")
			a.start("answer/" + step)
			a.awaitVoters(1)
			join := a.token()
			b.start("", join...)
			a.awaitKilled()
			a.start("")
			a.awaitVoters(2)
			b.awaitVoters(2)
			a.wantUsedOnce()
		})
	}
}
