package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A newer node is alive: no request reaches the Kubernetes API.
func TestRun_newerNodeIsAlive(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putNewer(t, raw)
	s := start(t, configure(t, server.Endpoints()[0], api))
	s.awaitStatus("ineligible", func(r statusReport) bool { return r.Election.Reason == string(protocol.NewerAlive) })
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
	s := start(t, configure(t, "http://"+proxy.Addr(), api))
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
	server, _, api := ledByNewer(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	s := start(t, configure(t, "http://"+proxy.Addr(), api))
	s.awaitReason(protocol.Ready)
	proxy.Cut(etcdtest.Blackhole)
	r := s.awaitStatus("not connected", func(r statusReport) bool { return !r.Etcd.Connected })
	if !r.Ready.Ready || r.Ready.StaleSince == nil {
		t.Errorf("got %+v, want ready on what was last known, and since when", r)
	}
	if code, body := s.get("/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	// On a busy machine, the status may be from a request that failed before the cut, and an
	// answer from before the cut may be noticed after it.
	s.awaitMetric("lockstep_etcd_connected", func(v float64) bool { return v == 0 })
	s.awaitMetric("lockstep_etcd_last_contact_timestamp_seconds", func(v float64) bool { return v > 0 })
	proxy.Restore()
	s.awaitStatus("connected", func(r statusReport) bool { return r.Etcd.Connected && r.Ready.StaleSince == nil })
}

// A watch loses the event of a new record. The sidecar finds the record all the same.
func TestRun_lostEvent(t *testing.T) {
	server, raw, api := ledByNewer(t)
	s := start(t, configure(t, server.Endpoints()[0], api))
	s.awaitReason(protocol.Ready)
	record := func(id string) {
		t.Helper()
		put(t, raw, keys.Node(protocol.NodeID(id)), nil)
		s.awaitStatus("the record", func(r statusReport) bool {
			return slices.ContainsFunc(r.Fleet.Nodes, func(n struct{ ID string }) bool { return n.ID == id })
		})
	}
	record("first") // the watch is open
	server.LoseEvents(keys.Node("lost"))
	record("lost")
	if lost := server.LoseEvents(""); lost == 0 {
		t.Error("no event was lost")
	}
	// On a busy machine, an event that is late counts too.
	s.awaitMetric("lockstep_etcd_watch_differences_total", func(v float64) bool { return v >= 1 })
}

// A sidecar whose record can expire closes its gate when it could not reach etcd
// for half of that time, and registers again before the gate opens. The time here
// is shorter than the options allow.
func TestRun_fences(t *testing.T) {
	server, _, api := ledByNewer(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	s := start(t, configure(t, "http://"+proxy.Addr(), api), func(a *App) {
		event.Update(a.bundle.Local(), func(l protocol.Local) protocol.Local { l.ExpireAfter = 2 * time.Second; return l })
	})
	s.awaitReason(protocol.Ready)
	first := s.app.roles.Registrar().Registration().Get().Revision
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
	if again := s.app.roles.Registrar().Registration().Get().Revision; again <= first {
		t.Errorf("ready again with the registration of revision %d", again)
	}
}
