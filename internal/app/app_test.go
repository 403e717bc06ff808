package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var keys = etcd.NewKeys(Defaults().EtcdPrefix)

// countingAPI is an API that refuses everything and counts the requests.
type countingAPI struct {
	requests   atomic.Int64
	kubeconfig string
}

func newCountingAPI(t *testing.T) *countingAPI {
	t.Helper()
	a := &countingAPI{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.requests.Add(1)
		http.Error(w, "not here", http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
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
	stop func() error
}

func options(t *testing.T, endpoint string, api *countingAPI) Options {
	t.Helper()
	o := Defaults()
	o.NodeID, o.Listen, o.Kubeconfig = "me", "127.0.0.1:0", api.kubeconfig
	o.EtcdServers = []string{endpoint}
	o.LeaseTTL = 3 * time.Second
	return o
}

func start(t *testing.T, o Options, changes ...func(*App)) *sidecar {
	t.Helper()
	a, err := New(o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(a)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var once atomic.Bool
	var result error
	s := &sidecar{T: t, app: a, stop: func() error {
		cancel()
		if once.CompareAndSwap(false, true) {
			result = <-ended
		}
		return result
	}}
	t.Cleanup(func() { _ = s.stop(); http.DefaultClient.CloseIdleConnections() })
	return s
}

func (s *sidecar) get(path string) (int, string) {
	s.Helper()
	resp, err := http.Get(s.app.URL() + path)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// report is the part of /status that the tests read.
type report struct {
	Ready struct {
		Ready      bool
		Reason     string
		StaleSince *time.Time
	}
	Election struct{ State, Reason string }
	Etcd     struct{ Connected bool }
}

// awaitStatus follows /status?watch until it is as wanted.
func (s *sidecar) awaitStatus(what string, ok func(report) bool) report {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.app.URL()+"/status?watch", nil)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var last string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		last = data
		var r report
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			s.Fatal(err)
		}
		if ok(r) {
			return r
		}
	}
	s.Fatalf("%s: not seen in time; last: %s", what, last)
	return report{}
}

func (s *sidecar) awaitReason(want protocol.Reason) report {
	s.Helper()
	return s.awaitStatus(string(want), func(r report) bool { return r.Ready.Reason == string(want) })
}

func put(t *testing.T, c *clientv3.Client, key string, value []byte) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, string(value)); err != nil {
		t.Fatal(err)
	}
}

// putStatus writes a status under which release 0.1.0, that of the built-in
// bundle, may serve.
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

// A newer node is alive: no request reaches the Kubernetes API.
func TestRun_newerNodeIsAlive(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	s := start(t, options(t, server.Endpoints()[0], api))
	s.awaitStatus("ineligible", func(r report) bool { return r.Election.Reason == string(protocol.NewerAlive) })
	putStatus(t, raw)
	s.awaitReason(protocol.Ready)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if n := api.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the API", n)
	}
}

func TestRun_etcdAwayAtStart(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	putNewer(t, server.Client(t))
	putStatus(t, server.Client(t))
	proxy := etcdtest.NewProxy(t, server.Addr())
	proxy.Cut(etcdtest.Blackhole)
	s := start(t, options(t, "http://"+proxy.Addr(), api))
	s.awaitReason(protocol.Starting)
	if code, body := s.get("/livez"); code != http.StatusOK || body != "ok" {
		t.Errorf("/livez: %d %q", code, body)
	}
	if code, body := s.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]etcd failed: Starting") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	proxy.Restore()
	s.awaitReason(protocol.Ready)
}

func TestRun_etcdAwayLater(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	putStatus(t, raw)
	proxy := etcdtest.NewProxy(t, server.Addr())
	s := start(t, options(t, "http://"+proxy.Addr(), api))
	s.awaitReason(protocol.Ready)
	proxy.Cut(etcdtest.Blackhole)
	r := s.awaitStatus("not connected", func(r report) bool { return !r.Etcd.Connected })
	if !r.Ready.Ready || r.Ready.StaleSince == nil {
		t.Errorf("got %+v, want ready on what was last known, and since when", r)
	}
	if code, body := s.get("/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if _, text := s.get("/metrics"); !strings.Contains(text, "lockstep_etcd_connected 0\n") || strings.Contains(text, "lockstep_etcd_last_contact_timestamp_seconds 0\n") {
		t.Errorf("/metrics does not tell that etcd is away, and since when:\n%s", text)
	}
	proxy.Restore()
	s.awaitStatus("connected", func(r report) bool { return r.Etcd.Connected && r.Ready.StaleSince == nil })
}

// The gate closes first, the API still answers during the delay, and the exit
// is clean.
// A sidecar whose record may be passed over closes its gate when etcd is away
// for half of that, and comes back through a registration. What is promised here
// is less than the options allow.
func TestRun_fences(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	putStatus(t, raw)
	proxy := etcdtest.NewProxy(t, server.Addr())
	s := start(t, options(t, "http://"+proxy.Addr(), api), func(a *App) {
		a.local.Update(func(l protocol.Local) protocol.Local { l.FenceAfter = 2 * time.Second; return l })
	})
	s.awaitReason(protocol.Ready)
	first := s.app.registrar.Registration().Get().Revision
	proxy.Cut(etcdtest.Blackhole)
	s.awaitReason(protocol.Fenced)
	if code, body := s.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]registered failed: Fenced") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := s.get("/readyz?exclude=etcd&exclude=registered&exclude=compatible"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz with checks left out: %d", code)
	}
	proxy.Restore()
	s.awaitReason(protocol.Ready)
	if again := s.app.registrar.Registration().Get().Revision; again <= first {
		t.Errorf("ready again with the registration of revision %d", again)
	}
}

func TestLocalOf(t *testing.T) {
	o := Defaults()
	o.ExpireDeadNodes = time.Hour
	b, err := loadBundle("")
	if err != nil {
		t.Fatal(err)
	}
	if got := localOf("me", b, o).FenceAfter; got != time.Hour {
		t.Errorf("got %s", got)
	}
}

func TestRun_gracefulStop(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	putStatus(t, raw)
	o := options(t, server.Endpoints()[0], api)
	o.ShutdownDelay = 2 * time.Second
	s := start(t, o)
	s.awaitReason(protocol.Ready)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	s.awaitReason(protocol.ShuttingDown)
	if code, body := s.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]shutdown failed: ShuttingDown") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := s.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	awaitPresence(t, s.app, func(p protocol.Presence) bool { return p.Election == protocol.Withdrawn && !p.Ready })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	resp, err := raw.Get(t.Context(), keys.Presence("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 0 {
		t.Error("the presence is still there after a clean exit")
	}
	if resp, err = raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("the record has to stay: %v, %v", resp.Kvs, err)
	}
}

// awaitPresence follows the observed fleet until this node's presence is as
// wanted.
func awaitPresence(t *testing.T, app *App, ok func(protocol.Presence) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		fleet, changed := app.follower.Fleet().Load()
		if r, _ := fleet.Record(app.id.node); r.Alive && ok(r.Presence) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the presence did not become as wanted: %+v", fleet.Records)
		}
	}
}

// Two sidecars with one node ID on one machine: the newest wins.
func TestRun_twinOnThisMachine(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	putStatus(t, raw)
	older := start(t, options(t, server.Endpoints()[0], api))
	older.awaitReason(protocol.Ready)
	newer := start(t, options(t, server.Endpoints()[0], api))
	newer.awaitReason(protocol.Ready)
	err := older.ended()
	var duplicate *fleet.DuplicateError
	if !errors.As(err, &duplicate) || duplicate.Newcomer || !strings.Contains(err.Error(), "on this machine") {
		t.Errorf("the older one ended with %v", err)
	}
}

// On another machine, while the presence lives, the newcomer is refused, and
// touches nothing.
func TestRun_twinOnAnotherMachine(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	first := start(t, options(t, server.Endpoints()[0], api))
	first.awaitReason(protocol.StatusMissing)
	before, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(options(t, server.Endpoints()[0], api), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.id.machineID = "another"
	a.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: a.etcd, Node: "me", Instance: "i", MachineID: "another", TTL: 3 * time.Second, Says: a.says, Log: a.log,
	})
	var duplicate *fleet.DuplicateError
	if err := a.Run(t.Context()); !errors.As(err, &duplicate) || !duplicate.Newcomer {
		t.Errorf("the newcomer ended with %v", err)
	}
	after, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	if before.Kvs[0].ModRevision != after.Kvs[0].ModRevision {
		t.Error("the newcomer wrote the record")
	}
}

// ended waits for the end of a sidecar that nobody stopped.
func (s *sidecar) ended() error {
	s.Helper()
	s.awaitGone()
	return s.stop()
}

// awaitGone returns when nobody answers any more.
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
	s.Fatal("it still answers")
}

func TestNew_badInput(t *testing.T) {
	api := newCountingAPI(t)
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no kubeconfig":           {func(o *Options) { o.Kubeconfig = filepath.Join(t.TempDir(), "none") }, "kubeconfig"},
		"no bundle":               {func(o *Options) { o.Bundle = filepath.Join(t.TempDir(), "none") }, "none"},
		"an empty bundle":         {func(o *Options) { o.Bundle = t.TempDir() }, "has no bundle.yaml"},
		"constraints too high":    {func(o *Options) { o.Bundle = bundleAbove(t) }, "above the release"},
		"a port that is taken":    {func(o *Options) { o.Listen = strings.TrimPrefix(etcdtest.New(t).Endpoints()[0], "http://") }, "--listen"},
		"a CA that is no CA":      {func(o *Options) { o.EtcdCAFile = api.kubeconfig }, "holds no PEM certificate"},
		"open to all without TLS": {func(o *Options) { o.Listen = "0.0.0.0:0" }, "--insecure-listen"},
		"expiry too soon":         {func(o *Options) { o.ExpireDeadNodes = 4 * o.LeaseTTL }, "--expire-dead-nodes: 12s: want 0 (never), or more than 12s"},
		"expiry below zero":       {func(o *Options) { o.ExpireDeadNodes = -time.Second }, "--expire-dead-nodes"},
		"a bad node ID":           {func(o *Options) { o.NodeID = "Not_a_subdomain" }, "--node-id"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "http://127.0.0.1:1", api)
			tc.change(&o)
			a, err := New(o, slog.New(slog.DiscardHandler))
			if err == nil {
				_ = a.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something about %q", err, tc.want)
			}
		})
	}
}

// bundleAbove writes a bundle whose constraint is above its release.
func bundleAbove(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: x}\nrelease: 1.0.0\nminReconcilerRelease: 1.0.1\nminApiserverRelease: 1.0.0\n",
		"ns.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
