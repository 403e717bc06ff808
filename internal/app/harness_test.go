package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var keys = keyspace.Under("/lockstep/")

// countingAPI is an API that answers /version, and refuses and counts all other requests.
type countingAPI struct {
	requests   atomic.Int64
	version    atomic.Pointer[string]
	kubeconfig string
	stop       func() // from then on it refuses connections
}

func newCountingAPI(t *testing.T) *countingAPI {
	t.Helper()
	a := &countingAPI{}
	a.version.Store(new("v1.0.0"))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprintf(w, `{"gitVersion": %q}`, *a.version.Load())
			return
		}
		a.requests.Add(1)
		http.Error(w, "not here", http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	a.stop = s.Close
	a.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
`, s.URL)
	if err := os.WriteFile(a.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sidecar is a whole one, in this process.
type sidecar struct {
	*testing.T
	app  *App
	stop func() error // stops it and returns the error of Run
}

func configure(t *testing.T, endpoint string, api *countingAPI) Config {
	t.Helper()
	return Config{
		NodeID: "me", Listen: "127.0.0.1:0", Kubeconfig: api.kubeconfig, Bundle: bundle.BuiltinName,
		Etcd:     etcd.Config{Endpoints: []string{endpoint}, Prefix: "/lockstep/"},
		LeaseTTL: 3 * time.Second, ResyncInterval: 10 * time.Minute, LeaderYieldAfter: 30 * time.Second, ApplyConcurrency: 16,
	}
}

// start runs a sidecar until the test ends. Changes are made before it runs.
func start(t *testing.T, cfg Config, changes ...func(*App)) *sidecar {
	t.Helper()
	return startLogging(t, cfg, slog.New(slog.DiscardHandler), changes...)
}

func startLogging(t *testing.T, cfg Config, log *slog.Logger, changes ...func(*App)) *sidecar {
	t.Helper()
	a, err := New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(a)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var result error
	ended := make(chan struct{}) // closed when result is set
	go func() { defer close(ended); result = a.Run(ctx) }()
	s := &sidecar{T: t, app: a, stop: func() error {
		cancel()
		<-ended
		return result
	}}
	t.Cleanup(func() { _ = s.stop(); http.DefaultClient.CloseIdleConnections() })
	return s
}

func (s *sidecar) get(path string) (int, string) {
	s.Helper()
	code, body, err := s.ask(path)
	if err != nil {
		s.Fatal(err)
	}
	return code, body
}

// ask is get for a sidecar that may have ended.
func (s *sidecar) ask(path string) (int, string, error) {
	resp, err := http.Get(s.app.URL() + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// statusReport is the part of /status that the tests read.
type statusReport struct {
	Roles struct{ Source string }
	Ready struct {
		Ready      bool
		Reason     string
		StaleSince *time.Time
	}
	Election struct{ State, Reason string }
	Etcd     struct{ Connected bool }
	Fleet    struct{ Nodes []struct{ ID string } }
	Warnings []struct{ Reason string }
}

// awaitStatus follows /status?watch until it is as wanted.
func (s *sidecar) awaitStatus(what string, ok func(statusReport) bool) statusReport {
	s.Helper()
	r, err := s.followStatus(ok)
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
	return r
}

// followStatus is awaitStatus for a sidecar that may have ended.
func (s *sidecar) followStatus(ok func(statusReport) bool) (statusReport, error) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.app.URL()+"/status?watch", nil)
	if err != nil {
		return statusReport{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return statusReport{}, err
	}
	defer resp.Body.Close()
	var last string
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, 16<<20) // a fleet of hundreds
	for scanner.Scan() {
		data, isData := strings.CutPrefix(scanner.Text(), "data: ")
		if !isData {
			continue
		}
		last = data
		var r statusReport
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			return statusReport{}, err
		}
		if ok(r) {
			return r, nil
		}
	}
	return statusReport{}, fmt.Errorf("not seen in time; last: %s", last)
}

// awaitMetric waits until ok accepts the value of a metric without labels.
func (s *sidecar) awaitMetric(name string, ok func(float64) bool) {
	s.Helper()
	deadline := time.Now().Add(20 * time.Second)
	text := ""
	for time.Now().Before(deadline) {
		_, text = s.get("/metrics")
		for line := range strings.Lines(text) {
			value, found := strings.CutPrefix(line, name+" ")
			if !found {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.Fatal(err)
			}
			if ok(v) {
				return
			}
		}
	}
	s.Fatalf("%s is not as wanted:\n%s", name, text)
}

func (s *sidecar) awaitReason(want protocol.Reason) statusReport {
	s.Helper()
	return s.awaitStatus(string(want), func(r statusReport) bool { return r.Ready.Reason == string(want) })
}

func put(t *testing.T, c *clientv3.Client, key string, value []byte) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, string(value)); err != nil {
		t.Fatal(err)
	}
}

// putStatus writes a status under which release 0.1.0, the built-in bundle's, may
// serve.
func putStatus(t *testing.T, c *clientv3.Client) {
	t.Helper()
	value, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, keys.Status(), value)
}

// putNewer registers a newer controller that is alive, so that the sidecar
// leaves the API alone.
func putNewer(t *testing.T, c *clientv3.Client) {
	t.Helper()
	n := protocol.Node{ID: "newer", Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: protocol.Release{Major: 10000}}}
	put(t, c, keys.Node("newer"), fleet.Encode(n))
	put(t, c, keys.Presence("newer"), nil)
}

// ledByNewer returns an etcd with a status and a newer controller, a client of it, and an
// API: a sidecar there becomes ready, and leaves the API alone.
func ledByNewer(t *testing.T) (*etcdtest.Server, *clientv3.Client, *countingAPI) {
	t.Helper()
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	putStatus(t, raw)
	return server, raw, api
}

// ended waits for the end of a sidecar that the test does not stop.
func (s *sidecar) ended() error {
	s.Helper()
	s.awaitGone()
	return s.stop()
}

// awaitGone returns when the sidecar does not answer any more.
func (s *sidecar) awaitGone() {
	s.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		resp, err := http.Get(s.app.URL() + "/livez")
		if err != nil {
			return
		}
		_ = resp.Body.Close()
	}
	s.Fatal("the sidecar still answers")
}
