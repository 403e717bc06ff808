package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
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
	local := start(t, assets)
	wantReady(t, local.url(t))

	t.Run("for the user's own cluster it starts only a sidecar", func(t *testing.T) {
		t.Setenv("KUBECONFIG", local.find(t, `export KUBECONFIG=(\S+)`))
		t.Setenv("ETCD_SERVERS", local.find(t, `starting etcd +(\S+)`))
		t.Setenv("LOCKSTEP_NODE_ID", "second")
		own := start(t, assets)
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

func TestRun_noBinaries(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // it keeps the logs of what failed
	t.Setenv("KUBECONFIG", "")
	var out strings.Builder
	err := run(t.Context(), t.TempDir(), &out)
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
func start(t *testing.T, assets string) *launched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &launched{cancel: cancel, done: make(chan error, 1)}
	in, out := io.Pipe()
	go func() {
		l.done <- run(ctx, assets, out)
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
