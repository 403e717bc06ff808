package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/event"
)

func TestNewRefuses(t *testing.T) {
	snapshot, log := event.New(Snapshot{}), slog.New(slog.DiscardHandler)
	bad := map[string]Config{
		"no snapshot":                 {Log: log},
		"no log":                      {Snapshot: snapshot},
		"a certificate without a key": {Snapshot: snapshot, Log: log, TLS: TLS{CertFile: "c"}},
		"a client CA without TLS":     {Snapshot: snapshot, Log: log, TLS: TLS{ClientCAFile: "ca"}},
		"missing files":               {Snapshot: snapshot, Log: log, TLS: TLS{CertFile: "/nope/c", KeyFile: "/nope/k"}},
		"a key without a certificate": {Snapshot: snapshot, Log: log, TLS: TLS{KeyFile: "k"}},
		"files without a certificate": {Snapshot: snapshot, Log: log, TLS: TLS{CertFile: "server_test.go", KeyFile: "server_test.go"}},
		"a missing client CA":         {Snapshot: snapshot, Log: log, TLS: TLS{CertFile: "/nope/c", KeyFile: "/nope/k", ClientCAFile: "/nope/ca"}},
	}
	for name, cfg := range bad {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestRun(t *testing.T) {
	t.Run("serves until its context ends", func(t *testing.T) {
		base, stop := run(t, newFixture(t, states(t)[1].snap))
		resp, body := ask(t, http.MethodGet, base+"/readyz", nil)
		if resp.StatusCode != http.StatusOK || string(body) != "ok" {
			t.Errorf("got %d %q", resp.StatusCode, body)
		}
		stop()
		if _, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
			t.Error("still listening after Run returned")
		}
	})
	t.Run("leaves no goroutine behind", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		ca := newAuthority(t)
		base, stop := run(t, newFixture(t, Snapshot{}, func(c *Config) { c.TLS = newTLS(t, ca) }))
		client := httpsClient(t, ca, nil)
		lines := bufio.NewScanner(openStream(t, t.Context(), client, base).Body)
		nextReport(t, lines)
		stop()
		for lines.Scan() { // until the stream has ended
		}
		client.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
	t.Run("a listener that breaks is an error", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := newFixture(t, Snapshot{}).Run(t.Context(), l); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want %v", err, net.ErrClosed)
		}
	})
	t.Run("a request under way is finished, and a new one refused", func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		f := newFixture(t, Snapshot{}, func(c *Config) {
			c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(entered)
				<-leave
				w.WriteHeader(http.StatusNoContent)
			})
		})
		base, stop := run(t, f)
		code := make(chan int, 1)
		go func() {
			resp, err := http.Get(base + "/metrics")
			if err != nil {
				code <- 0
				return
			}
			resp.Body.Close()
			code <- resp.StatusCode
		}()
		<-entered
		go func() {
			<-f.stopping
			close(leave)
		}()
		stop()
		if got := <-code; got != http.StatusNoContent {
			t.Errorf("got %d, want 204", got)
		}
	})
}

func TestPanics(t *testing.T) {
	var logged bytes.Buffer
	panics := func(begin bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if begin {
				w.WriteHeader(http.StatusOK)
			}
			panic("kaboom")
		})
	}
	fix := func(h http.Handler) fixture {
		return newFixture(t, Snapshot{}, func(c *Config) { c.Metrics, c.Log = h, slog.New(slog.NewTextHandler(&logged, nil)) })
	}
	t.Run("before the answer began: a problem, counted and logged", func(t *testing.T) {
		f := fix(panics(false))
		w := get(t, f.Handler(), "/metrics")
		wantProblem(t, w.Result(), w.Body.Bytes())
		loadContract(t).wantKept(t, "/metrics", w.Result(), w.Body.Bytes())
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "kaboom") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if got := testutil.ToFloat64(f.metrics.panics); got != 1 {
			t.Errorf("lockstep_httpapi_panics_total: got %v, want 1", got)
		}
		if !containsAll(logged.String(), "level=ERROR", "kaboom", "server_test.go") {
			t.Errorf("logged %s", &logged)
		}
	})
	t.Run("after it began: the connection is cut", func(t *testing.T) {
		server := httptest.NewServer(fix(panics(true)).Handler())
		defer server.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("got %d, want a broken connection", resp.StatusCode)
		}
		if resp, _ := ask(t, http.MethodGet, server.URL+"/livez", nil); resp.StatusCode != http.StatusOK {
			t.Errorf("/livez after it: got %d", resp.StatusCode)
		}
	})
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, Snapshot{})
	for _, target := range []string{"/readyz", "/readyz", "/readyz/etcd", "/livez", "/a/b", "/../etc", "/readyz/nope"} {
		get(t, f.Handler(), target)
	}
	want := map[[2]string]float64{
		{"/readyz", "503"}: 2, {"/readyz", "200"}: 0, {"/readyz/{check}", "503"}: 1, {"/readyz/{check}", "404"}: 1,
		{"/livez", "200"}: 1, {"other", "404"}: 2, {"/leader", "503"}: 0,
	}
	for labels, n := range want {
		if got := testutil.ToFloat64(f.metrics.requests.WithLabelValues(labels[0], labels[1])); got != n {
			t.Errorf("lockstep_httpapi_requests_total%v: got %v, want %v", labels, got, n)
		}
	}
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if w := get(t, newFixture(t, Snapshot{}, func(c *Config) { c.Registerer, c.Metrics = nil, nil }).Handler(), "/metrics"); w.Code != http.StatusNotFound {
		t.Errorf("without a handler: got %d, want 404", w.Code)
	}
}
