package election

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// The goroutine that starts processes for package cluster never ends: the kernel kills
// them when its thread does.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/lockstep-dev/lockstep/test/cluster.startAll"))
}

const prefix = "/lockstep/"

var keys = keyspace.Under(prefix)

func rel(t *testing.T, s string) protocol.Release {
	t.Helper()
	r, err := semver.ParseRelease(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// world is a real etcd and an API.
type world struct {
	*testing.T
	server *etcdtest.Server
	raw    *clientv3.Client
	api    *api
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: etcdtest.New(t), api: newAPI(t)}
	w.raw = w.server.Client(t)
	return w
}

// node is one sidecar's election, with presence and registration.
type node struct {
	*world
	id        string
	local     *event.Value[protocol.Local]
	store     *status.Store
	presence  *fleet.Presence
	registrar *fleet.Registrar
	election  *Election
	mayLead   *event.Value[bool]
	proxy     *etcdtest.Proxy
	stop      func() // gracefully
}

// options of a node. The zero value: all nodes reach one API, and A is 0.0.0.
type options struct {
	a           string
	api         *api
	ttl         time.Duration // zero: 10 s
	drainTime   time.Duration // zero: an hour, longer than any test
	yieldAfter  time.Duration // zero: an hour
	expireAfter time.Duration // zero: the leader waits for the node without end
	ephemeral   bool
	missing     func(protocol.NodeID) time.Time // nil: nothing is seen to be missing
	log         *slog.Logger                    // nil: discarded
}

func (o options) withDefaults(w *world) options {
	if o.a == "" {
		o.a = "0.0.0"
	}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	if o.api == nil {
		o.api = w.api
	}
	if o.ttl == 0 {
		o.ttl = 10 * time.Second // longer than what a test calls "at once"
	}
	if o.drainTime == 0 {
		o.drainTime = time.Hour
	}
	if o.yieldAfter == 0 {
		o.yieldAfter = time.Hour
	}
	return o
}

func (w *world) start(id, release string, o options) *node {
	w.Helper()
	o = o.withDefaults(w)
	log := o.log
	n := &node{world: w, id: id, mayLead: event.New(false), proxy: etcdtest.NewProxy(w.T, w.server.Addr())}
	client := newClient(w.T, n.proxy.Addr())
	n.local = event.New(localOf(w.T, id, release, o.a))
	event.Update(n.local, func(l protocol.Local) protocol.Local {
		l.ExpireAfter, l.Ephemeral = o.expireAfter, o.ephemeral
		return l
	})
	follower := fleet.NewFollower(client)
	n.store = status.NewStore(client)
	says := event.New(fleet.Shown{})
	presence := fleet.NewPresence(fleet.PresenceConfig{Client: client, Node: protocol.NodeID(id), Instance: "i-" + id, MachineID: "m", TTL: o.ttl, Shown: says, Log: log})
	n.presence = presence
	hook := trace.ForTest(w.T)
	n.registrar = fleet.NewRegistrar(fleet.RegistrarConfig{Trace: hook, Presence: presence.Lease(), Client: client, Local: n.local, BootID: "b", Fleet: follower.Fleet(), Store: follower.Store(), Log: log})
	n.election = New(Config{
		Client: client, Store: n.store, Local: n.local, Fleet: follower.Fleet(), StoreKey: follower.Store(), Applier: applier{o.api, id}, Session: presence.Session(),
		TTL: o.ttl, ResyncInterval: time.Hour, YieldAfter: o.yieldAfter, MayLead: n.mayLead, Missing: o.missing, Log: log, Trace: hook,
	})
	n.election.drainTime = o.drainTime
	show := func(ctx context.Context) error {
		for {
			s, changed := n.election.State().Load()
			says.Set(fleet.Shown{Presence: protocol.Presence{Election: s.Election}})
			if !event.Wait(ctx, changed) {
				return ctx.Err()
			}
		}
	}
	stopLeading := w.run(n.election.Run)
	stopRest := w.run(follower.Run, n.store.Run, presence.Run, n.registrar.Run, show)
	n.stop = sync.OnceFunc(func() { stopLeading(); stopRest() })
	w.Cleanup(n.stop)
	return n
}

// newClient returns a client of the etcd at addr, which ends with the test.
func newClient(t *testing.T, addr string) *etcd.Client {
	t.Helper()
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + addr}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// localOf is what a node runs.
func localOf(t *testing.T, id, release, a string) protocol.Local {
	t.Helper()
	return protocol.Local{
		ID: protocol.NodeID(id), Version: protocol.Version{Release: rel(t, release)}, Digest: "d" + release,
		Constraints: protocol.Constraints{MinAPIServer: rel(t, a)},
	}
}

// run runs workers and returns what stops them and waits.
func (w *world) run(workers ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var group sync.WaitGroup
	for _, worker := range workers {
		group.Go(func() {
			if err := worker(ctx); !errors.Is(err, context.Canceled) {
				w.Errorf("worker ended: %v", err)
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// withLeadership lets a test make the leader's decisions one by one: do gets a
// leadership whose loop does not run. The leader's record is registered.
func (w *world) withLeadership(local protocol.Local, do func(context.Context, *leadership)) {
	w.Helper()
	w.putRecord(string(local.ID), local.Version.Release.String())
	client := newClient(w.T, w.server.Addr())
	e := New(Config{
		Client: client, Store: status.NewStore(client), Local: event.New(local),
		Applier: applier{w.api, string(local.ID)}, Log: slog.New(slog.DiscardHandler),
	})
	err := client.WithSession(w.Context(), time.Minute, func(ctx context.Context, s *etcd.Session) error {
		key := keys.Leader(int64(s.Lease()))
		epoch, err := e.enqueue(ctx, s, key)
		if err != nil {
			return err
		}
		l := e.newLeadership(s, key, epoch)
		l.beginRound()
		do(ctx, l)
		return nil
	})
	if err != nil {
		w.Error(err)
	}
}

// patience is how long a test waits for what has to happen: much longer than it
// takes on a loaded machine.
const patience = time.Minute

func await[T any](t *testing.T, v *event.Value[T], what string, ok func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		if !event.Wait(ctx, changed) {
			t.Fatalf("%s: not observed in time; last: %+v", what, val)
		}
	}
}

func (n *node) awaitState(want protocol.ElectionState) State {
	n.Helper()
	return await(n.T, n.election.State(), n.id+" "+string(want), func(s State) bool { return s.Election == want })
}

func (n *node) awaitStep(kind protocol.StepKind) protocol.Step {
	n.Helper()
	return await(n.T, n.election.State(), n.id+" "+kind.String(), func(s State) bool { return s.Step.Kind == kind }).Step
}

func (n *node) awaitProblem() {
	n.Helper()
	await(n.T, n.election.State(), "a problem", func(s State) bool { return s.Problem != "" })
}

// awaitStatus returns the first such status that the node's watch reports. The
// watch lags behind the leader: where two statuses fit, a test that has awaited
// the leader's step reads etcd instead (readStatus).
func (n *node) awaitStatus(state protocol.State, version string) protocol.Status {
	n.Helper()
	return await(n.T, n.store.Observed(), state.String()+" "+version, func(o status.Observed) bool {
		return o.View.Kind == protocol.StatusPresent && o.View.Status.State == state && o.View.Status.Version.Release == rel(n.T, version)
	}).View.Status
}

func (w *world) put(key string, value []byte) int64 {
	w.Helper()
	resp, err := w.raw.Put(w.Context(), key, string(value))
	if err != nil {
		w.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *world) delete(key string) {
	w.Helper()
	if _, err := w.raw.Delete(w.Context(), key); err != nil {
		w.Fatal(err)
	}
}

// putRecord registers a controller that no sidecar of the test runs.
func (w *world) putRecord(id, release string) {
	w.Helper()
	w.putExpiringRecord(id, release, 0)
}

// putExpiringRecord registers a controller that no sidecar of the test runs, and
// that the leader does not wait for after it was absent for that long; 0: it waits
// without end.
func (w *world) putExpiringRecord(id, release string, after time.Duration) {
	w.Helper()
	w.put(keys.Node(protocol.NodeID(id)), fleet.Encode(protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: rel(w.T, release)}, ExpireAfter: after,
	}))
}

func (w *world) putStatus(s protocol.Status) {
	w.Helper()
	value, err := status.Encode(s, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	w.put(keys.Status(), value)
}

// doneAt is a status that admits every release from the given one.
func doneAt(t *testing.T, release string) protocol.Status {
	t.Helper()
	return protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, release)}, MinCompatible: rel(t, release)}
}

// statusRevision reads the mod revision of the status; 0: there is none.
func (w *world) statusRevision() int64 {
	w.Helper()
	return w.view().Revision
}

// readStatus reads the status from etcd.
func (w *world) readStatus() protocol.Status {
	w.Helper()
	v := w.view()
	if v.Kind != protocol.StatusPresent {
		w.Fatalf("read the status: got %+v", v)
	}
	return v.Status
}

func (w *world) view() protocol.StatusView {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Status())
	if err != nil {
		w.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return status.Decode(nil)
	}
	kv := etcd.NewKV(resp.Kvs[0])
	return status.Decode(&kv)
}
