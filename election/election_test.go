package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// api stands for the Kubernetes API of all nodes: it keeps a mark and counts
// the calls. It is not what holds the reconciler to the real API; package
// reconcile and test/e2e do that.
type api struct {
	mu    sync.Mutex // mu guards what follows
	mark  protocol.Mark
	calls []string
	fail  error
	block chan struct{} // where not nil, Reconcile waits for it
	// refuse makes passes incomplete.
	refuse    bool
	cancelled int // passes that were stopped
	answered  time.Time
	quiet     []time.Time // that passes got
	unsure    bool        // passes leave a request of unknown outcome behind
	keeping   []string    // what was to be kept
	kept      int         // how often that ended
	drift     chan error  // what is sent ends it
	// letGo, where not nil, is called when it ends.
	letGo      func()
	keptUnsure bool // a repair has left a request of unknown outcome behind
	// stopping, where not nil, is called by a pass that was stopped, while it
	// still runs.
	stopping func()
}

func newAPI() *api { return &api{mark: protocol.Mark{Kind: protocol.MarkAbsent}} }

func (a *api) called() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.calls...)
}

func (a *api) finishedByAnother() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mark.FirstDone
}

func (a *api) stopped() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cancelled
}

func (a *api) set(change func(*api)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// applier is the API as one node reaches it.
type applier struct {
	*api
	node string
}

func (a applier) Answered() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answered
}

func (a applier) Survey(context.Context, protocol.Work, time.Time) (protocol.Mark, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, a.node+" survey")
	if a.fail == nil {
		a.answered = time.Now()
	}
	return a.mark, a.fail
}

func (a applier) Keep(ctx context.Context, w protocol.Work, lease func() time.Time) (protocol.Outcome, error) {
	a.mu.Lock()
	drift, stopping := a.drift, a.letGo
	a.keeping = append(a.keeping, a.node+" "+w.Content.Release.String())
	a.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-drift:
	}
	if stopping != nil {
		stopping()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept++
	return protocol.Outcome{Unsure: since(a.keptUnsure)}, err
}

// since is now, if a request was given up.
func since(unsure bool) time.Time {
	if unsure {
		return time.Now()
	}
	return time.Time{}
}

func (a applier) Reconcile(ctx context.Context, w protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	a.mu.Lock()
	block, fail, refuse, stopping := a.block, a.fail, a.refuse, a.stopping
	a.quiet = append(a.quiet, quiet)
	a.calls = append(a.calls, fmt.Sprintf("%s reconcile %s@%d", a.node, w.Content.Release, w.Content.Epoch))
	a.mu.Unlock()
	if block != nil {
		select {
		case <-ctx.Done():
			if stopping != nil {
				stopping()
			}
			a.set(func(a *api) { a.cancelled++ })
			return protocol.Outcome{}, ctx.Err()
		case <-block:
		}
	}
	if fail != nil {
		return protocol.Outcome{Unsure: since(a.unsure)}, fail
	}
	if time.Until(lease()) <= 0 {
		return protocol.Outcome{}, errors.New("the lease is over")
	}
	if w.First && a.finishedByAnother() {
		return protocol.Outcome{Unfounded: true}, nil
	}
	if refuse {
		return protocol.Outcome{HighestEpoch: w.Content.Epoch}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mark = protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{w.Content}, HighestEpoch: w.Content.Epoch}
	return protocol.Outcome{Complete: true, Unsure: since(a.unsure), HighestEpoch: w.Content.Epoch}, nil
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
	w := &world{T: t, server: etcdtest.New(t), api: newAPI()}
	w.raw = w.server.Client(t)
	return w
}

// node is one sidecar's election, with presence and registration.
type node struct {
	*world
	id        string
	local     *event.Value[protocol.Local]
	store     *status.Store
	registrar *fleet.Registrar
	election  *Election
	proxy     *etcdtest.Proxy
	stop      func() // gracefully
}

// options of a node; the zero value: all nodes reach one API, A 0.0.0.
type options struct {
	a   string
	api *api
	ttl time.Duration
	// drainTime: zero: an hour, which is over in no test.
	drainTime time.Duration
	// yieldAfter: zero: a minute.
	yieldAfter time.Duration
	fenceAfter time.Duration
}

func (w *world) start(id, release string, o options) *node {
	w.Helper()
	if o.a == "" {
		o.a = "0.0.0"
	}
	if o.api == nil {
		o.api = w.api
	}
	if o.ttl == 0 {
		o.ttl = 10 * time.Second // a take-over that needs it would not be "at once"
	}
	if o.drainTime == 0 {
		o.drainTime = time.Hour
	}
	if o.yieldAfter == 0 {
		o.yieldAfter = time.Minute
	}
	log := slog.New(slog.DiscardHandler)
	n := &node{world: w, id: id, proxy: etcdtest.NewProxy(w.T, w.server.Addr())}
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + n.proxy.Addr()}, Prefix: prefix, RequestTimeout: time.Second})
	if err != nil {
		w.Fatal(err)
	}
	n.local = event.New(protocol.Local{
		ID: protocol.NodeID(id), Version: protocol.Version{Release: rel(w.T, release)}, Digest: "d" + release,
		Constraints: protocol.Constraints{MinApiserver: rel(w.T, o.a)}, FenceAfter: o.fenceAfter,
	})
	follower := fleet.NewFollower(client)
	n.store = status.NewStore(client)
	says := event.New(fleet.Says{})
	presence := fleet.NewPresence(fleet.PresenceConfig{Client: client, Node: protocol.NodeID(id), Instance: "i-" + id, MachineID: "m", TTL: o.ttl, Says: says, Log: log})
	n.registrar = fleet.NewRegistrar(fleet.RegistrarConfig{Presence: presence.Lease(), Client: client, Local: n.local, BootID: "b", Fleet: follower.Fleet(), Log: log})
	n.election = New(Config{
		Client: client, Store: n.store, Local: n.local, Fleet: follower.Fleet(), Applier: applier{o.api, id},
		TTL: o.ttl, ResyncInterval: time.Hour, YieldAfter: o.yieldAfter, Log: log,
	})
	n.election.drainTime = o.drainTime
	tell := func(ctx context.Context) error {
		for {
			s, changed := n.election.State().Load()
			says.Set(fleet.Says{Election: s.Election})
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
		}
	}
	stopLeading := w.run(n.election.Run)
	stopRest := w.run(follower.Run, n.store.Run, presence.Run, n.registrar.Run, tell)
	n.stop = sync.OnceFunc(func() {
		stopLeading()
		stopRest()
		if err := client.Close(); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(n.stop)
	return n
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

func await[T any](t *testing.T, v *event.Value[T], what string, ok func(T) bool) T {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not seen in time; last: %+v", what, val)
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
	w.put(keys.Node(protocol.NodeID(id)), fleet.Encode(protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: rel(w.T, release)},
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

func (w *world) statusRevision() int64 {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Status())
	if err != nil {
		w.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].ModRevision
}

func TestElection_newCluster(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.block = make(chan struct{}) })
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	if r := w.statusRevision(); r != 0 {
		t.Errorf("a status was written (revision %d) before the first reconciliation is done", r)
	}
	close(w.api.block)
	s := n.awaitStatus(protocol.Done, "1.0.0")
	if s.Leader != "a" || s.Epoch == 0 || s.ContentEpoch != 1 || s.Digest != "d1.0.0" {
		t.Errorf("got %s", s)
	}
	n.awaitStep(protocol.StepHold)
}

func TestElection_newerIsAlive(t *testing.T) {
	w := newWorld(t)
	w.putRecord("newer", "10000.0.0")
	w.put(keys.Presence("newer"), nil)
	n := w.start("a", "1.0.0", options{})
	await(t, n.election.State(), "ineligible", func(s State) bool { return s.Eligibility.Reason == protocol.NewerAlive })

	// It dies: a campaigns at once. A record alone keeps nobody back while the
	// content is not of that release.
	w.delete(keys.Presence("newer"))
	n.awaitStatus(protocol.Done, "1.0.0")
	n.awaitStep(protocol.StepHold)

	// It comes alive: a resigns at once, without a restart.
	w.put(keys.Presence("newer"), nil)
	n.awaitState(protocol.Ineligible)
	before := len(w.api.called())
	w.delete(keys.Status())
	await(t, n.store.Observed(), "no status", func(o status.Observed) bool { return o.View.Kind == protocol.StatusAbsent })
	if after := w.api.called(); len(after) != before {
		t.Errorf("calls of the API while a newer node is alive: %v", after[before:])
	}
}

func TestElection_blockers(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.9.0")
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	revision := w.statusRevision()
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	step := n.awaitStep(protocol.StepAwait)
	if len(step.Blockers) != 1 || step.Blockers[0].Node != "old" || step.Blockers[0].Reason != protocol.ReleaseTooOld {
		t.Errorf("got %+v", step.Blockers)
	}
	if r, calls := w.statusRevision(), w.api.called(); r != revision || len(calls) != 0 {
		t.Errorf("while the too old node is there: status revision %d, want %d; calls %v", r, revision, calls)
	}
	w.putRecord("old", "1.0.0")
	s := n.awaitStatus(protocol.Done, "1.0.0")
	if s.MinCompatible != rel(t, "1.0.0") {
		t.Errorf("got %s", s)
	}
}

func TestElection_shutOutNodeDoesNotBlock(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.8.0")
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	n.awaitStatus(protocol.Done, "1.0.0")
}

// A second candidate waits; the first stops; the second leads, long before the
// first one's lease would have ended.
func TestElection_gracefulStop(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Minute})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: time.Minute})
	b.awaitState(protocol.Campaigning)
	a.stop()
	b.awaitStep(protocol.StepHold)
	if s := w.readStatus(); s.State != protocol.Done || s.Leader != "b" || s.ContentEpoch != 1 {
		t.Errorf("got %s", s)
	}
	want := []string{"a survey", "a reconcile 1.0.0@1", "b reconcile 1.0.0@1"}
	if got := w.api.called(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("calls: got %v, want %v", got, want)
	}
}

// Rolling: the newer release leads at once when it comes alive.
func TestElection_newerTakesOver(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Minute})
	a.awaitStep(protocol.StepHold)
	w.start("b", "1.0.0", options{ttl: time.Minute}).awaitState(protocol.Campaigning)
	c := w.start("c", "1.1.0", options{ttl: time.Minute})
	s := c.awaitStatus(protocol.Done, "1.1.0")
	if s.Leader != "c" || s.ContentEpoch != 2 || s.ContentRelease != rel(t, "1.1.0") {
		t.Errorf("got %s", s)
	}
	a.awaitState(protocol.Ineligible)
}

func TestElection_statusLost(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	for name, lose := range map[string]func(){
		"deleted":     func() { w.delete(keys.Status()) },
		"overwritten": func() { w.put(keys.Status(), []byte("\xff")) },
		"of another version": func() {
			w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.statusRevision() // after lose() it may be DONE again already
			lose()
			await(t, n.store.Observed(), "DONE again", func(o status.Observed) bool {
				return o.View.Revision > before && o.View.Status.State == protocol.Done && o.View.Status.Version.Release == rel(t, "1.0.0")
			})
		})
	}
}

// A status that is lost while nobody leads is rebuilt from the mark before
// anything else.
func TestElection_statusRebuilt(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) {
		a.mark = protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, HighestEpoch: 8, Entries: []protocol.Content{
			{Release: rel(t, "0.9.0"), Digest: "x", Epoch: 7},
			{Release: rel(t, "1.0.0"), Digest: "y", Epoch: 8, Constraints: protocol.Constraints{MinApiserver: rel(t, "0.9.0")}},
		}}
		a.block = make(chan struct{})
	})
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	s := w.readStatus()
	if s.State != protocol.Working || s.Version.Release != rel(t, "0.9.0") || s.MinCompatible != rel(t, "0.9.0") || s.ContentEpoch != 9 {
		t.Errorf("got %s", s)
	}
	close(w.api.block)
	n.awaitStatus(protocol.Done, "1.0.0")
}

// The restricted write loses the race with a node record: the guard fails, the
// leader looks again and finds the blocker.
func TestLeadership_guardFails(t *testing.T) {
	w := newWorld(t)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	n := w.start("a", "0.9.0", options{})
	n.awaitStep(protocol.StepHold)

	client := n.election.cfg.Client
	err := client.WithSession(t.Context(), time.Minute, func(ctx context.Context, s *etcd.Session) error {
		key := keys.Leader(int64(s.Lease()))
		epoch, err := n.election.enqueue(ctx, s, key)
		if err != nil {
			return err
		}
		local := n.local.Get()
		local.Version.Release, local.Constraints.MinApiserver = rel(t, "1.0.0"), rel(t, "1.0.0")
		other := New(n.election.cfg)
		other.cfg.Local = event.New(local)
		w.putRecord("a", "1.0.0") // so that nothing blocks
		l := other.newLeadership(s, key, epoch)
		in, err := l.gather(ctx)
		if err != nil {
			return err
		}
		// The registrar of a puts its record right again: 0.9.0, which the
		// restricted status shuts out.
		await(t, client.Contact(), "the record", func(etcd.Contact) bool {
			resp, err := w.raw.Get(ctx, keys.Node("a"))
			return err == nil && resp.Kvs[0].ModRevision > in.Fleet.Revision
		})
		in.Fleet.Records[0].Node.Version.Release = rel(t, "1.0.0") // as it was in the snapshot, if a was faster
		step := protocol.Next(in)
		if step.Kind != protocol.StepWrite || step.Guard.FleetRevision != in.Fleet.Revision {
			return fmt.Errorf("got %s, want a guarded write", step)
		}
		before := w.statusRevision()
		if err := n.store.Write(ctx, key, step.Status, step.Guard); !errors.Is(err, status.ErrGuard) {
			return fmt.Errorf("write: got %w, want ErrGuard", err)
		}
		if got := w.statusRevision(); got != before {
			return fmt.Errorf("the status was written, at %d", got)
		}
		in, err = l.gather(ctx)
		if err != nil {
			return err
		}
		if step := protocol.Next(in); step.Kind != protocol.StepAwait || len(step.Blockers) != 1 {
			return fmt.Errorf("looked again: got %s, want a blocker", step)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// FACTS 1.2 C2: a candidate whose lease is gone is not told that it leads.
func TestElection_leaseRevokedWhileWaiting(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: 3 * time.Second})
	b.awaitState(protocol.Campaigning)
	queue := await(t, b.election.queue, "two candidates", func(l etcd.Listing) bool { return len(l.KVs) == 2 })
	epoch := queue.KVs[1].CreateRevision
	w.delete(queue.KVs[1].Key)
	// It queues up again, with another key.
	await(t, b.election.queue, "b again", func(l etcd.Listing) bool {
		return len(l.KVs) == 2 && l.KVs[1].CreateRevision > epoch
	})
	if got := a.election.State().Get().Election; got != protocol.Leading {
		t.Errorf("a is %s", got)
	}
}

// The leader's key is deleted by somebody: it stops leading, and nothing of it
// is written any more.
func TestElection_keyDeleted(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	epoch := a.awaitState(protocol.Leading).Epoch
	queue := await(t, a.election.queue, "a leads", func(l etcd.Listing) bool { return len(l.KVs) == 1 })
	w.delete(queue.KVs[0].Key)
	await(t, a.election.State(), "another epoch", func(s State) bool { return s.Election == protocol.Leading && s.Epoch > epoch })
}

// A leader that is cut off leads no more when its lease is over, and another
// leads then.
func TestElection_leaderCutOff(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: 3 * time.Second})
	b.awaitState(protocol.Campaigning)
	a.proxy.Cut(etcdtest.Blackhole)
	b.awaitState(protocol.Leading)
	if got := a.election.State().Get(); got.Election == protocol.Leading {
		t.Errorf("b leads and a still says so too: %+v", got)
	}
	a.awaitState(protocol.Ineligible)
	a.proxy.Restore()
	a.awaitState(protocol.Campaigning)
}

// A leader whose own API is out of reach yields to another, and comes back when
// the API answers (4.7).
func TestElection_yields(t *testing.T) {
	w := newWorld(t)
	gone := newAPI()
	gone.fail = errors.New("connection refused")
	a := w.start("a", "1.1.0", options{api: gone, yieldAfter: 300 * time.Millisecond})
	a.awaitState(protocol.Withdrawn)
	b := w.start("b", "1.0.0", options{})
	b.awaitStatus(protocol.Done, "1.0.0")
	gone.set(func(g *api) { g.fail = nil })
	a.awaitStatus(protocol.Done, "1.1.0")
	b.awaitState(protocol.Ineligible)
}

// What the observed fleet does not show yet does not make a hot loop: the leader
// resigns for a newer node, and campaigns again after a pause that grows.
func TestElection_observesLate(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	stale := n.election.cfg
	stale.Fleet = event.New(n.election.cfg.Fleet.Get()) // never sees the newer node
	n.stop()
	client, err := etcd.NewClient(etcd.Config{Endpoints: w.server.Endpoints(), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	stale.Client, stale.Store = client, status.NewStore(client)
	w.putRecord("newer", "2.0.0")
	first := w.put(keys.Presence("newer"), nil)
	late := New(stale)
	stop := w.run(late.Run)
	for seen := 0; seen < 3; { // three resignations
		q, changed := late.queue.Load()
		if len(q.KVs) > 0 {
			seen++
		}
		<-changed
	}
	stop()
	// Each campaign takes a key and gives it back; a hot loop makes hundreds.
	if last := w.put("/elsewhere", nil); last-first > 20 {
		t.Errorf("%d revisions were written", last-first)
	}
}

// An API that hangs, without an error, is out of reach all the same.
func TestElection_yieldsWhenTheAPIHangs(t *testing.T) {
	w := newWorld(t)
	hangs := newAPI()
	hangs.mark = protocol.Mark{Kind: protocol.MarkAbsent}
	hangs.block = make(chan struct{})
	a := w.start("a", "1.1.0", options{api: hangs, yieldAfter: 300 * time.Millisecond})
	a.awaitState(protocol.Withdrawn)
	if n := hangs.stopped(); n != 1 {
		t.Errorf("%d passes were stopped, want 1", n)
	}
}

// A long pass of an API that answers is no reason to yield, though one before it
// failed.
func TestElection_doesNotYieldWhileItWorks(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.fail = errors.New("connection refused") })
	n := w.start("a", "1.0.0", options{yieldAfter: time.Second})
	await(t, n.election.State(), "a problem", func(s State) bool { return s.Problem != "" })
	w.api.set(func(a *api) { a.fail, a.block = nil, make(chan struct{}) })
	n.awaitStep(protocol.StepReconcile)
	answers := w.run(func(ctx context.Context) error {
		for {
			w.api.set(func(a *api) { a.answered = time.Now() })
			if !backoff.Sleep(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
		}
	})
	defer answers()
	began := time.Now()
	for i := 0; time.Since(began) < 1500*time.Millisecond; i++ { // longer than it would bear
		w.putRecord(fmt.Sprint("n", i%9), "1.0.0")
	}
	close(w.api.block)
	n.awaitStatus(protocol.Done, "1.0.0")
	if got := w.api.stopped(); got != 0 {
		t.Errorf("%d passes were stopped", got)
	}
}

// A pass that could not be done for another reason is no reason to yield.
func TestElection_doesNotYieldForNothing(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.fail = fmt.Errorf("%w: the bundle changed", ErrNotDue) })
	n := w.start("a", "1.0.0", options{yieldAfter: 300 * time.Millisecond})
	epoch := n.awaitState(protocol.Leading).Epoch
	await(t, n.election.State(), "a problem", func(s State) bool { return s.Problem != "" })
	for len(w.api.called()) < 3 { // tried again, by the same leader
		await(t, n.election.State(), "leading", func(s State) bool { return s.Election == protocol.Leading && s.Epoch == epoch })
	}
	w.api.set(func(a *api) { a.fail = nil })
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.Epoch != epoch {
		t.Errorf("another epoch: %s", s)
	}
}

// Objects that the API refuses keep the status WORKING, and are tried again.
func TestElection_incomplete(t *testing.T) {
	w := newWorld(t)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}})
	w.api.set(func(a *api) { a.refuse = true })
	n := w.start("a", "1.0.0", options{})
	await(t, n.election.State(), "a problem", func(s State) bool { return s.Problem != "" })
	n.awaitStatus(protocol.Working, "0.9.0")
	w.api.set(func(a *api) { a.refuse = false })
	n.awaitStatus(protocol.Done, "1.0.0")
}

// A bundle that changes under the leader is new content, with a new epoch.
func TestElection_bundleChanges(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	n.local.Update(func(l protocol.Local) protocol.Local { l.Digest = "other"; return l })
	await(t, n.store.Observed(), "the other content", func(o status.Observed) bool {
		s := o.View.Status
		return s.State == protocol.Done && s.Digest == "other" && s.ContentEpoch == 2
	})
}

// A candidate that loses the role leaves the queue, whoever leads.
func TestElection_candidateLosesRole(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{})
	b.awaitState(protocol.Campaigning)
	if err := fleet.SetRoles(t.Context(), b.election.cfg.Client, "b", protocol.Roles{}); err != nil {
		t.Fatal(err)
	}
	await(t, b.election.State(), "ineligible", func(s State) bool { return s.Eligibility.Reason == protocol.NotController })
	await(t, a.election.queue, "a alone", func(l etcd.Listing) bool { return len(l.KVs) == 1 })
	if err := fleet.SetRoles(t.Context(), b.election.cfg.Client, "b", protocol.Roles{Controller: true}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(protocol.Campaigning)
	if err := fleet.SetRoles(t.Context(), b.election.cfg.Client, "a", protocol.Roles{}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(protocol.Leading)
}

// What changes while a pass is under way, but not what it has to reach, does
// not stop it.
func TestElection_passGoesOn(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.block = make(chan struct{}) })
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	for i := range 5 {
		id := protocol.NodeID(fmt.Sprint("n", i))
		w.put(keys.Presence(id), nil)
		w.putRecord(string(id), "1.0.0")
		await(t, n.election.cfg.Fleet, "the record", func(f protocol.Fleet) bool {
			r, _ := f.Record(id)
			return r.Alive
		})
	}
	close(w.api.block)
	n.awaitStatus(protocol.Done, "1.0.0")
	if got, want := fmt.Sprint(w.api.called()), "[a survey a reconcile 1.0.0@1]"; got != want {
		t.Errorf("calls: got %s, want %s", got, want)
	}
}

// What was to be the first reconciliation is not, by the time it begins: the
// leader looks at the mark again, and rebuilds the status from it.
func TestElection_notTheFirst(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.block = make(chan struct{}) })
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	w.api.set(func(a *api) {
		a.mark = protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, HighestEpoch: 1, Entries: []protocol.Content{
			{Release: rel(t, "0.9.0"), Digest: "x", Epoch: 1},
		}}
	})
	close(w.api.block)
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.ContentEpoch != 2 {
		t.Errorf("got %s", s)
	}
	want := "[a survey a reconcile 1.0.0@1 a survey a reconcile 1.0.0@2]"
	if got := fmt.Sprint(w.api.called()); got != want {
		t.Errorf("calls: got %s, want %s", got, want)
	}
}

// A pass that may not go on is stopped: a status that people wrote admits a
// node that does not fit what the pass would bring.
func TestElection_passIsStopped(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.9.0")
	shutOut := protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "1.0.0")}, MinCompatible: rel(t, "1.0.0")}
	w.putStatus(shutOut)
	w.api.set(func(a *api) { a.block = make(chan struct{}) })
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	await(t, n.election.State(), "a pass", func(s State) bool { return s.Working && s.Step.Kind == protocol.StepReconcile })
	admits := shutOut
	admits.MinCompatible = rel(t, "0.9.0")
	w.putStatus(admits)
	n.awaitStep(protocol.StepAwait)
	await(t, n.election.State(), "no pass", func(s State) bool { return s.Step.Kind == protocol.StepAwait && !s.Working })
	if n := w.api.stopped(); n != 1 {
		t.Errorf("%d passes were stopped, want 1", n)
	}
}
