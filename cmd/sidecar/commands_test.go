package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// call runs a command in this process.
func call(t *testing.T, p program, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	p.LookupEnv = func(string) (string, bool) { return "", false }
	p.Now = func() time.Time { return noon }
	code = p.main(t.Context(), args)
	checkPrinted(t, args, out.String()+errs.String())
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	runs := func(err error) program {
		return program{run: func(context.Context, lockstep.Options, *slog.Logger) error { return err }}
	}
	tests := []struct {
		name string
		p    program
		args []string
		want int
	}{
		{"help", program{}, nil, console.ExitOK},
		{"a good run", runs(nil), []string{"run", "--kubeconfig", "k", "--bundle", "b"}, console.ExitOK},
		{"a failed run", runs(errors.New("constraints above the release")), []string{"run", "--kubeconfig", "k", "--bundle", "b"}, console.ExitFailed},
		{"options that do not hold", runs(nil), []string{"run"}, console.ExitUsage},
		{"an unknown flag", program{}, []string{"run", "--nope"}, console.ExitUsage},
		{"a value that cannot be parsed", program{}, []string{"run", "--lease-ttl", "x"}, console.ExitUsage},
		{"an unknown command", program{}, []string{"nope"}, console.ExitUsage},
		{"a surplus argument", program{}, []string{"version", "x"}, console.ExitUsage},
		{"an unknown shell", program{}, []string{"completion", "csh"}, console.ExitUsage},
		{"status", program{}, []string{"status", "--server", f.URL}, console.ExitOK},
		{"status of an address where nothing listens", program{}, []string{"status", "--server", "http://127.0.0.1:1"}, console.ExitFailed},
		{"a missing client certificate", program{}, []string{"status", "--client-certificate", "/nope", "--client-key", "/nope"}, console.ExitFailed},
		{"a client certificate without its key", program{}, []string{"status", "--client-certificate", "/nope"}, console.ExitUsage},
		{"not ready in time", program{}, []string{"wait-ready", "--timeout", "50ms", "--server", f.URL}, console.ExitNotReady},
		{"no sidecar before the timeout", program{}, []string{"wait-ready", "--timeout", "50ms", "--server", "http://127.0.0.1:1"}, console.ExitNotReady},
		{"asked once, and not ready", program{}, []string{"wait-ready", "--once", "--server", f.URL}, console.ExitNotReady},
		{"asked once, and no sidecar", program{}, []string{"wait-ready", "--once", "--server", "http://127.0.0.1:1"}, console.ExitNotReady},
		{"asked once, and refused", program{}, []string{"wait-ready", "--once", "--server", f.URL + "/nope"}, console.ExitFailed},
		{"asked once, with a wrong timeout", program{}, []string{"wait-ready", "--once", "--timeout", "-1s"}, console.ExitUsage},
		{"refused", program{}, []string{"wait-ready", "--timeout", "1m", "--server", f.URL + "/nope"}, console.ExitFailed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, _, stderr := call(t, test.p, test.args...)
			if code != test.want {
				t.Errorf("got exit code %d, want %d: %s", code, test.want, stderr)
			}
			if code != console.ExitOK && (!strings.Contains(stderr, "sidecar: ") || !strings.HasSuffix(stderr, "\n")) {
				t.Errorf("got %q on stderr", stderr)
			}
		})
	}
}

// TestWaitReady_once: the answer comes at once, also if the sidecar hangs.
func TestWaitReady_once(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	wantOnce := func(want int, stdout, stderr string, args ...string) {
		t.Helper()
		code, out, errs := call(t, program{}, append([]string{"wait-ready", "--once"}, args...)...)
		if code != want || out != stdout || !strings.HasPrefix(errs, stderr) || (stderr == "") != (errs == "") || strings.Count(errs, "\n") > 1 {
			t.Errorf("%q: got %d, %q and %q, want %d, %q and %q", args, code, out, errs, want, stdout, stderr)
		}
	}
	wantOnce(console.ExitNotReady, "", "sidecar: not ready: Starting: the sidecar is starting\n", "--server", f.URL)
	f.snapshot.Set(waiting())
	wantOnce(console.ExitNotReady, "", "sidecar: not ready: ReconcilerTooOld: ", "--server", f.URL)
	s := ready()
	s.APIServer = httpapi.APIServer{Enabled: true, Message: "connection refused"}
	f.snapshot.Set(s)
	wantOnce(console.ExitNotReady, "", "sidecar: not ready: this node's kube-apiserver is not ready: connection refused\n", "--server", f.URL)
	f.snapshot.Set(ready())
	wantOnce(console.ExitOK, "ready\n", "", "--server", f.URL)
	wantOnce(console.ExitNotReady, "", "sidecar: not ready: no answer from "+hangs.URL+" within 50ms\n", "--server", hangs.URL, "--timeout", "50ms")
	wantOnce(console.ExitNotReady, "", "sidecar: not ready: request to the sidecar: ", "--server", "http://127.0.0.1:1")
}

func TestWaitReadySaysWhy(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	stderr, w := io.Pipe()
	var stdout bytes.Buffer
	p := program{Program: console.Program{Stdout: &stdout, Stderr: w, LookupEnv: func(string) (string, bool) { return "", false }}}
	done := make(chan int, 1)
	go func() {
		done <- p.main(t.Context(), []string{"wait-ready", "--server", f.URL})
		w.Close()
	}()
	lines := bufio.NewScanner(stderr)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	next("waiting: Starting: ")
	again := waiting()
	f.snapshot.Set(again)
	next("waiting: ReconcilerTooOld: this node needs")
	again.Warnings = []protocol.Warning{{Message: "another change of the same reason"}}
	f.snapshot.Set(again)
	f.snapshot.Set(httpapi.Snapshot{})
	next("waiting: Starting: ")
	f.snapshot.Set(ready())
	if code := <-done; code != console.ExitOK || stdout.String() != "ready\n" || lines.Scan() {
		t.Errorf("got exit code %d, stdout %q, stderr %q", code, &stdout, lines.Text())
	}
}

func TestStatusFollows(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	stdout, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	p := program{Program: console.Program{Stdout: w, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }, Now: func() time.Time { return noon }}}
	done := make(chan int, 1)
	go func() { done <- p.main(ctx, []string{"status", "-w", "-o", "json", "--server", f.URL}) }()
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{"Starting", "ReconcilerTooOld", "Ready"} {
		if !lines.Scan() {
			t.Fatalf("ended before %s: %v", want, lines.Err())
		}
		var got report.Status
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil || got.Ready.Reason != want {
			t.Fatalf("got %q %v, want %q", got.Ready.Reason, err, want)
		}
		switch want {
		case "Starting":
			f.snapshot.Set(waiting())
		case "ReconcilerTooOld":
			f.snapshot.Set(ready())
		}
	}
	cancel()
	if code := <-done; code != console.ExitOK {
		t.Errorf("got exit code %d, want 0 when interrupted", code)
	}
}

// TestFollowComesBack: a sidecar that ends the stream, or is not up yet, is asked
// again.
func TestFollowComesBack(t *testing.T) {
	api, err := httpapi.New(httpapi.Config{Snapshot: newFakeSidecar().snapshot, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; asked {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		default:
			api.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	flags := reach.Server{URL: server.URL}
	c, err := flags.Client(console.Program{})
	if err != nil {
		t.Fatal(err)
	}
	var lost []string
	got := 0
	err = c.Follow(t.Context(), reach.Follower{
		Each: func(reach.Answer) (bool, error) { got++; return true, nil },
		Lost: func(err error) { lost = append(lost, err.Error()) },
	})
	if err != nil || got != 1 || len(lost) != 1 || !strings.Contains(lost[0], "answered 502") {
		t.Errorf("got %d answers, lost %q, err %v", got, lost, err)
	}
}

// TestFollowWithoutStream: others use all streams of the sidecar. wait-ready notices all
// the same that the node is ready.
func TestFollowWithoutStream(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	var streams []*http.Response
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+"/status?watch", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if streams = append(streams, resp); len(streams) > 1000 {
			t.Fatal("the streams have no limit")
		}
	}
	stderr, w := io.Pipe()
	var stdout bytes.Buffer
	p := program{Program: console.Program{Stdout: &stdout, Stderr: w, LookupEnv: func(string) (string, bool) { return "", false }}}
	done := make(chan int, 1)
	go func() {
		done <- p.main(t.Context(), []string{"wait-ready", "--timeout", "30s", "--server", f.URL})
		w.Close()
	}()
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "waiting: Starting: ") {
		t.Errorf("got %q", lines.Text())
	}
	f.snapshot.Set(ready())
	if lines.Scan() {
		t.Errorf("got %q", lines.Text())
	}
	if code := <-done; code != console.ExitOK || stdout.String() != "ready\n" {
		t.Errorf("got exit code %d, stdout %q", code, &stdout)
	}
}
