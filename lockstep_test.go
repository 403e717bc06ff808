package lockstep

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an etcd with a status under which any release may serve, and a
// Kubernetes API that rejects every request.
type fixture struct {
	*testing.T
	etcd *etcdtest.Server
	opts Options // for a sidecar here
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := etcdtest.New(t)
	value, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Client(t).Put(t.Context(), keyspace.Under("/lockstep/").Status(), string(value)); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "forbidden", http.StatusForbidden)
	}))
	t.Cleanup(api.Close)
	return &fixture{T: t, etcd: server, opts: Options{
		NodeID: "a", Etcd: External{Servers: server.Endpoints()}, Kubeconfig: writeKubeconfig(t, api.URL), Bundle: BuiltinBundle, LeaseTTL: 3 * time.Second,
	}}
}

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
`, server)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// newSidecar makes a sidecar, and closes it with the test.
func (f *fixture) newSidecar() *Sidecar {
	f.Helper()
	s, err := New(f.opts, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	return s
}

// run runs s until the test ends, or stop is called.
func (f *fixture) run(s *Sidecar) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = func() {
		if cancel == nil {
			return
		}
		cancel()
		cancel = nil
		if err := <-ended; err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// soon bounds a wait that is expected to end by itself.
func (f *fixture) soon() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	f.Cleanup(cancel)
	return ctx
}

func (f *fixture) wantReadyz(h http.Handler, code int) {
	f.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(f.Context(), http.MethodGet, "/readyz", nil))
	if w.Code != code {
		f.Errorf("/readyz: got %d %s, want %d", w.Code, w.Body, code)
	}
}

func TestSidecar_withoutListener(t *testing.T) {
	f := newFixture(t)
	s := f.newSidecar()
	if s.URL() != "" {
		t.Errorf("got the URL %q, want none without Options.Listen", s.URL())
	}
	if s.Ready() {
		t.Error("ready before Run")
	}
	f.wantReadyz(s.Handler(), http.StatusServiceUnavailable)

	waiting := make(chan error, 1)
	go func() { waiting <- s.WaitReady(f.soon()) }() // before Run
	stop := f.run(s)
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if !s.Ready() {
		t.Error("not ready after WaitReady")
	}
	f.wantReadyz(s.Handler(), http.StatusOK)
	open, closed := s.Verdict().Load()
	if !open.Ready {
		t.Errorf("got the verdict %+v, want an open gate", open)
	}

	stop()
	select {
	case <-closed:
	default:
		t.Error("who follows the verdict does not learn that the gate closed")
	}
	if v := s.Verdict().Get(); v.Ready || v.Reason != protocol.ShuttingDown {
		t.Errorf("got the verdict %+v after Run", v)
	}
	if s.Ready() {
		t.Error("ready after Run")
	}
	f.wantReadyz(s.Handler(), http.StatusServiceUnavailable)
	if err := s.WaitReady(f.soon()); !errors.Is(err, status.ErrClosed) || !strings.Contains(err.Error(), "ShuttingDown") {
		t.Errorf("WaitReady after Run: got %v", err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run ran twice")
	}
}

// A program that serves Handler itself waits for its requests when it stops: a
// stream that did not end with Run would keep it waiting.
func TestSidecar_streamEndsWithRun(t *testing.T) {
	f := newFixture(t)
	s := f.newSidecar()
	server := httptest.NewServer(http.StripPrefix("/lockstep", s.Handler()))
	defer server.Close()
	stop := f.run(s)
	if err := s.WaitReady(f.soon()); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.soon(), http.MethodGet, server.URL+"/lockstep/status?watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Errorf("the stream did not end gracefully: %v", err)
	}
	if !strings.Contains(text.String(), `"reason":"ShuttingDown"`) {
		t.Errorf("the stream does not show the end:\n%s", &text)
	}
}

func TestSidecar_listens(t *testing.T) {
	f := newFixture(t)
	f.opts.Listen = "127.0.0.1:0"
	s := f.newSidecar()
	f.run(s)
	if err := s.WaitReady(f.soon()); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/openapi.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(openAPI)) {
		t.Errorf("/openapi.yaml: got %s and %d bytes, want %d", resp.Status, resp.ContentLength, len(openAPI))
	}
}

func TestWaitReady_endsWithItsContext(t *testing.T) {
	s := newFixture(t).newSidecar()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitReady(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that ctx ended", err)
	}
}

func TestWaitReady_stoppedBeforeTheGateOpens(t *testing.T) {
	f := newFixture(t)
	f.opts.Etcd = External{Servers: []string{"http://127.0.0.1:1"}} // where nothing answers
	s := f.newSidecar()
	waiting := make(chan error, 1)
	go func() { waiting <- s.WaitReady(f.soon()) }()
	f.run(s)()
	if err := <-waiting; !errors.Is(err, status.ErrClosed) {
		t.Errorf("got %v, want %v", err, status.ErrClosed)
	}
}

func TestClose_withoutRun(t *testing.T) {
	f := newFixture(t)
	s := f.newSidecar()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if err := s.WaitReady(f.soon()); !errors.Is(err, status.ErrClosed) {
		t.Errorf("WaitReady: got %v, want %v", err, status.ErrClosed)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run ran after Close")
	}
}

// TestRegisterer: a program gets the metrics of its sidecars, and those of one that has ended no longer.
func TestRegisterer(t *testing.T) {
	f, registry := newFixture(t), prometheus.NewRegistry()
	count := func(name string) (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == name {
				n = len(family.GetMetric())
			}
		}
		return n
	}
	f.opts.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"sidecar": "a"}, registry)
	first, err := New(f.opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(f.opts, nil); err == nil || !strings.Contains(err.Error(), "wrap the registry with a label for each") {
		t.Errorf("a second sidecar with the same metrics: got %v", err)
	}
	f.opts.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"sidecar": "b"}, registry)
	second, err := New(f.opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := count("lockstep_readyz"); n != 2 {
		t.Errorf("got %d gauges of two sidecars", n)
	}
	for _, s := range []*Sidecar{first, second} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := count("lockstep_readyz"); n != 0 {
		t.Errorf("got %d gauges after the sidecars were closed", n)
	}
}
