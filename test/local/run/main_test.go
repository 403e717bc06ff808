package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// patience is how long a test waits for the end of what it has started.
const patience = 60 * time.Second

func TestRun(t *testing.T) {
	assets := cluster.Assets(t, "kube-apiserver", "sidecar")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("ETCD_SERVERS", "")
	local := start(t, settings{assets: assets}) // -cluster=external
	wantReady(t, local.url(t))

	t.Run("for the user's own cluster it starts only a sidecar", func(t *testing.T) {
		t.Setenv("KUBECONFIG", local.find(t, `export KUBECONFIG=(\S+)`))
		t.Setenv("ETCD_SERVERS", local.find(t, `starting etcd +(\S+)`))
		t.Setenv("LOCKSTEP_NODE_ID", "second")
		t.Setenv("LOCKSTEP_E2E_ASSETS", "") // it is passed on to the sidecar, which refuses what is not its own
		own := start(t, settings{assets: assets})
		wantReady(t, own.url(t))
		if strings.Contains(own.text, "kube-apiserver") {
			t.Errorf("it started a kube-apiserver:\n%s", own.text)
		}
		own.stop(t)
		wantReady(t, local.url(t))
	})
	t.Run("another bundle is typed, after a directory that has none", func(t *testing.T) {
		dir := nextBundle(t)
		local.typing <- filepath.Join(dir, "nowhere")
		local.typing <- dir
		cluster.Await(t, "the node of the next release to be ready", func(context.Context) error { return readyWith(local.url(t), nextRelease) })
	})
	local.stop(t)
	if _, err := http.Get(local.url(t) + "/livez"); err == nil {
		t.Errorf("the sidecar still answers after Ctrl-C")
	}
}

// TestRun_command types what the launcher prints. One command is the node: its kube-apiserver
// stops and starts with its role. The line for a node that joins, its token, and the command that
// comes with that let two nodes join with kube-apiservers of their own. They start with
// the bundle to which the first node was upgraded.
func TestRun_command(t *testing.T) {
	s := settings{assets: cluster.Assets(t, "kube-apiserver", "sidecar")}
	for i := range 3 {
		s.addresses = append(s.addresses, fmt.Sprintf("127.%d.%d.%d", 192+os.Getpid()>>8&0x3f, os.Getpid()&0xff, 12+i))
	}
	t.Setenv("KUBECONFIG", "")
	local := start(t, s)
	wantReady(t, local.url(t))
	local.typed(t, s, local.find(t, `(\S+ node set-roles local --remove .*)`))
	cluster.Await(t, "the kube-apiserver to stop", func(context.Context) error {
		if conn, err := net.Dial("tcp", net.JoinHostPort(s.addresses[0], strconv.Itoa(cluster.APIServerPort))); err == nil {
			return errors.Join(errors.New("it listens"), conn.Close())
		}
		return nil
	})
	local.typed(t, s, local.find(t, `(\S+ node set-roles local --add .*)`))
	cluster.Await(t, "the gate", func(context.Context) error { return ready(local.url(t)) })

	local.typing <- nextBundle(t)
	cluster.Await(t, "the next release", func(context.Context) error { return readyWith(local.url(t), nextRelease) })
	joined := local.join(t, s)
	for _, address := range s.addresses[1:] {
		cluster.Await(t, "the gate of the node at "+address, func(context.Context) error { return readyWith("http://"+address+":8086", nextRelease) })
	}
	cluster.Await(t, "three voters", func(context.Context) error {
		if out := local.typed(t, s, local.find(t, `(\S+ cluster members .*)`)); strings.Count(out, " voter ") != len(s.addresses) {
			return errors.New(out)
		}
		return nil
	})
	end(t, joined)
	local.stop(t)
}

// A bundle that is wrong is reported before anything starts, with the place.
func TestRun_wrongBundle(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bundle.yaml"), []byte("kind: Bundle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := t.TempDir() // no API server would take it
	for name, text := range map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: b}\nrelease: 1.0.0\n", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	} {
		if err := os.WriteFile(filepath.Join(refused, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for bundle, want := range map[string]string{
		refused:                       filepath.Join(refused, "a.yaml") + `:1: ConfigMap "a" has no metadata.namespace`,
		dir:                           filepath.Join(dir, "bundle.yaml") + ":1: apiVersion is missing",
		filepath.Join(dir, "nowhere"): "no such file",
	} {
		var out strings.Builder
		if err := run(t.Context(), settings{bundle: bundle}, &out, nil); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: got %v, want %s, and no output: %s", bundle, err, want, out.String())
		}
	}
}

func TestRun_noBinaries(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // it keeps the logs of what failed
	t.Setenv("KUBECONFIG", "")
	var out strings.Builder
	err := run(t.Context(), settings{assets: t.TempDir()}, &out, nil)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, want an error that names the missing file", err)
	}
	if !strings.Contains(out.String(), "starting kube-apiserver  failed\n") {
		t.Errorf("got output\n%s\nwant the part that failed", out.String())
	}
}

// launched is a run in progress, with what it printed until it was ready.
type launched struct {
	text   string
	cancel context.CancelFunc
	done   chan error // one error, at the end
	typing chan string
}

// start runs until everything is ready.
func start(t *testing.T, s settings) *launched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &launched{cancel: cancel, done: make(chan error, 1), typing: make(chan string)}
	in, out := io.Pipe()
	go func() {
		l.done <- run(ctx, s, out, l.typing)
		_ = out.Close() // never fails
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		l.text += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "Ctrl-C stops") {
			go func() { _, _ = io.Copy(io.Discard, in) }() // ends with run
			return l
		}
	}
	t.Fatalf("run ended with %v after:\n%s", <-l.done, l.text)
	return nil
}

// typed runs a command that was printed.
func (l *launched) typed(t *testing.T, s settings, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = filepath.Dir(s.assets) // "bin/sidecar" is relative to the repository
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// join starts the other nodes, as the printed commands do.
func (l *launched) join(t *testing.T, s settings) (joined []*exec.Cmd) {
	t.Helper()
	creates := regexp.MustCompile(`(\S+ cluster token create .*)`).FindAllString(l.text, -1)
	for i, line := range regexp.MustCompile(`(?m)^ *(\. \S+\.env)$`).FindAllStringSubmatch(l.text, -1) {
		token := l.typed(t, s, line[1]+"\n"+creates[i])
		printed := regexp.MustCompile(`(?m)^  LOCKSTEP_TOKEN=(\S+) (sidecar run .*)$`).FindStringSubmatch(token)
		if printed == nil {
			t.Fatalf("no command in:\n%s", token)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line[1]+"\nexport LOCKSTEP_TOKEN="+printed[1]+"\nexec "+printed[2]) //nolint:gosec // it is what the program under test prints
		// This test has a variable of its own, which is none of the sidecar.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_") })
		if err := cluster.StartCommand(cmd); err != nil {
			t.Fatal(err)
		}
		joined = append(joined, cmd)
	}
	return joined
}

// end stops the other nodes, one after another.
func end(t *testing.T, joined []*exec.Cmd) {
	t.Helper()
	for _, cmd := range joined {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// stop does what Ctrl-C does.
func (l *launched) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	select {
	case err := <-l.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatalf("still running %s after Ctrl-C", patience)
	}
}

func (l *launched) url(t *testing.T) string {
	t.Helper()
	return l.find(t, `readiness +(\S+)/readyz`)
}

func (l *launched) find(t *testing.T, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(l.text)
	if match == nil {
		t.Fatalf("no %s in the output:\n%s", pattern, l.text)
	}
	return match[1]
}

func wantReady(t *testing.T, url string) {
	t.Helper()
	if err := ready(url); err != nil {
		t.Error(err)
	}
}

const nextRelease = "0.2.0"

// nextBundle is a bundle of nextRelease that follows the built-in one.
func nextBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: base}\nrelease: " + nextRelease + "\n"
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n"
	for name, text := range map[string]string{"bundle.yaml": text, "a.yaml": object} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readyWith returns nil if the gate is open, and the node runs a release.
func readyWith(url, release string) error {
	body, err := get(url + "/status")
	if err == nil {
		var status struct {
			Node struct{ Release string }
		}
		if err = json.Unmarshal([]byte(body), &status); err == nil && status.Node.Release != release {
			err = errors.New(body)
		}
	}
	return errors.Join(err, ready(url))
}

// ready returns nil if the gate is open.
func ready(url string) error {
	_, err := get(url + "/readyz")
	return err
}

func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: got %s, want 200", url, resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
