package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	local := start(t, settings{assets: assets})
	wantReady(t, local.url(t))

	t.Run("for the user's own cluster it starts only a sidecar", func(t *testing.T) {
		t.Setenv("KUBECONFIG", local.find(t, `export KUBECONFIG=(\S+)`))
		t.Setenv("ETCD_SERVERS", local.find(t, `starting etcd +(\S+)`))
		t.Setenv("LOCKSTEP_NODE_ID", "second")
		own := start(t, settings{assets: assets})
		wantReady(t, own.url(t))
		if strings.Contains(own.text, "kube-apiserver") {
			t.Errorf("it started a kube-apiserver:\n%s", own.text)
		}
		own.stop(t)
		wantReady(t, local.url(t))
	})
	local.stop(t)
	if _, err := http.Get(local.url(t) + "/livez"); err == nil {
		t.Errorf("the sidecar still answers after Ctrl-C")
	}
}

// TestRun_embedded types what the launcher prints: a token, and the command that comes
// with it, after the line for the node that joins.
func TestRun_embedded(t *testing.T) {
	s := settings{assets: cluster.Assets(t, "kube-apiserver", "sidecar")}
	for i := range 3 {
		s.addresses = append(s.addresses, fmt.Sprintf("127.%d.%d.%d", 192+os.Getpid()>>8&0x3f, os.Getpid()&0xff, 2+i))
	}
	t.Setenv("KUBECONFIG", "")
	local := start(t, s)
	typed := func(command string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = filepath.Dir(s.assets) // "bin/sidecar" is relative to the repository
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return string(out)
	}
	token := typed(local.find(t, `(\S+ cluster token create .*)`))
	printed := regexp.MustCompile(`(?m)^  (sidecar run .*)$`).FindStringSubmatch(token)
	if printed == nil {
		t.Fatalf("no command in:\n%s", token)
	}
	var joined []*exec.Cmd
	for _, line := range regexp.MustCompile(`(?m)^ *(export PATH=.*)$`).FindAllStringSubmatch(local.text, -1) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line[1]+"\nexec "+printed[1]) //nolint:gosec // it is what the program under test prints
		if err := cluster.StartCommand(cmd); err != nil {
			t.Fatal(err)
		}
		joined = append(joined, cmd)
	}
	members := local.find(t, `(\S+ cluster members .*)`)
	cluster.Await(t, "three voters", func(context.Context) error {
		if out := typed(members); strings.Count(out, " voter ") != len(s.addresses) {
			return errors.New(out)
		}
		return nil
	})
	for _, cmd := range joined {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	local.stop(t)
}

func TestRun_noBinaries(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // it keeps the logs of what failed
	t.Setenv("KUBECONFIG", "")
	var out strings.Builder
	err := run(t.Context(), settings{assets: t.TempDir()}, &out)
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
}

// start runs until everything is ready.
func start(t *testing.T, s settings) *launched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &launched{cancel: cancel, done: make(chan error, 1)}
	in, out := io.Pipe()
	go func() {
		l.done <- run(ctx, s, out)
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
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s/readyz: got %s, want 200", url, resp.Status)
	}
}
