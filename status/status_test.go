package status

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
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

// world is a gate of release 1.1.0 and M 1.0.0 on a real etcd.
type world struct {
	*testing.T
	server       *etcdtest.Server
	proxy        *etcdtest.Proxy
	raw          *clientv3.Client
	client       *etcd.Client
	store        *Store
	gate         *Gate
	registration *event.Value[protocol.Registration]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: etcdtest.New(t), registration: event.New(protocol.Registration{})}
	w.raw = w.server.Client(t)
	w.proxy = etcdtest.NewProxy(t, w.server.Addr())
	var err error
	w.client, err = etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + w.proxy.Addr()}, Prefix: prefix, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.store = NewStore(w.client)
	w.gate = NewGate(GateConfig{
		Store: w.store, Registration: w.registration, Contact: w.client.Contact(), Log: slog.New(slog.DiscardHandler),
		Local: event.New(protocol.Local{
			ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")},
			Constraints: protocol.Constraints{MinReconciler: rel(t, "1.0.0")},
		}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- w.store.Run(ctx) }()
	go func() { ended <- w.gate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("worker ended: %v", err)
			}
		}
		if err := w.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// put writes the status as people would and returns the revision.
func (w *world) put(version, minimum string) int64 {
	w.Helper()
	value, err := Encode(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: rel(w.T, version)}, MinCompatible: rel(w.T, minimum),
	}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return w.putBytes(value)
}

func (w *world) putBytes(value []byte) int64 {
	w.Helper()
	resp, err := w.raw.Put(w.Context(), keys.Status(), string(value))
	if err != nil {
		w.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *world) remove() {
	w.Helper()
	if _, err := w.raw.Delete(w.Context(), keys.Status()); err != nil {
		w.Fatal(err)
	}
}

// register confirms the registration at the store's present revision.
func (w *world) register() {
	w.Helper()
	resp, err := w.raw.Put(w.Context(), keys.Node("me"), "")
	if err != nil {
		w.Fatal(err)
	}
	w.registration.Set(protocol.Registration{Confirmed: true, Controller: true, Revision: resp.Header.Revision})
}

func (w *world) await(want protocol.Reason) Verdict {
	w.Helper()
	return w.awaitVerdict(string(want), func(v Verdict) bool { return v.Reason == want })
}

func (w *world) awaitVerdict(what string, ok func(Verdict) bool) Verdict {
	w.Helper()
	deadline := time.After(20 * time.Second)
	for {
		v, changed := w.gate.Verdict().Load()
		if ok(v) {
			return v
		}
		select {
		case <-changed:
		case <-deadline:
			w.Fatalf("the verdict did not become %s; last: %+v", what, v)
		}
	}
}

func TestGate_WaitReady(t *testing.T) {
	w := newWorld(t)
	ready := make(chan error, 1)
	go func() { ready <- w.gate.WaitReady(t.Context()) }()
	waits := func(reason protocol.Reason) {
		t.Helper()
		w.await(reason)
		select {
		case err := <-ready:
			t.Fatalf("WaitReady returned (%v) while %s", err, reason)
		default:
		}
	}
	waits(protocol.NotRegistered)
	w.register()
	waits(protocol.StatusMissing)
	w.put("0.0.0", "0.0.0")
	waits(protocol.ReconcilerTooOld)
	w.put("10000.0.0", "10000.0.0")
	waits(protocol.ReleaseTooOld)
	w.put("10000.0.0", "1.1.0")
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	if v := w.gate.Verdict().Get(); !v.Ready || v.Reason != protocol.Ready {
		t.Errorf("got %+v", v)
	}
}

func TestGate_WaitReady_cancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.gate.WaitReady(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A gate that was fenced opens only with a status that was read after the new
// registration, whatever the watch has seen of it.
func TestGate_fenced(t *testing.T) {
	w := newWorld(t)
	w.put("1.1.0", "1.0.0")
	w.register()
	w.await(protocol.Ready)
	w.registration.Set(protocol.Registration{Fenced: true})
	w.await(protocol.Fenced)
	// A status that admits it opens nothing.
	at := w.put("1.1.0", "0.9.0")
	await := w.store.Observed()
	for o, changed := await.Load(); o.At.Revision < at; o, changed = await.Load() {
		<-changed
	}
	if v := w.gate.Verdict().Get(); v.Ready || v.Reason != protocol.Fenced {
		t.Errorf("got %+v, want Fenced still", v)
	}
	w.put("1.2.0", "1.2.0")
	w.register()
	w.await(protocol.ReleaseTooOld)
	w.put("1.2.0", "1.1.0")
	w.await(protocol.Ready)
}

// A status that was read before the registration opens nothing, however good
// it is: the gate reads again, at or after it.
func TestGate_registersFirst(t *testing.T) {
	w := newWorld(t)
	w.put("1.1.0", "1.0.0")
	seen := w.store.Observed()
	for {
		o, changed := seen.Load()
		if o.View.Kind == protocol.StatusPresent {
			break
		}
		<-changed
	}
	w.await(protocol.NotRegistered)

	// Registered, but etcd is out of reach: what the watch saw before does not
	// count.
	w.proxy.Cut(etcdtest.Blackhole)
	w.register()
	w.awaitVerdict("registered, and waiting for a read", func(v Verdict) bool {
		return v.Reason == protocol.NotRegistered && v.Message == "this node is registered; the status has not been read since"
	})
	w.proxy.Restore()
	w.await(protocol.Ready)

	t.Run("a new registration closes the gate until the status was read again", func(t *testing.T) {
		w.proxy.Cut(etcdtest.Blackhole)
		w.register()
		w.await(protocol.NotRegistered)
		w.proxy.Restore()
		w.await(protocol.Ready)
	})
}

func TestGate_isLive(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.put("1.1.0", "1.0.0")
	since := w.await(protocol.Ready).Since
	w.put("1.2.0", "1.0.0")
	says120 := func(v Verdict) bool { return strings.Contains(v.Message, "reconciler 1.2.0") }
	if v := w.awaitVerdict("that of the new status", says120); !v.Ready || !v.Since.Equal(since) {
		t.Errorf("got %+v, want ready since %s still", v, since)
	}
	w.put("1.2.0", "1.2.0")
	w.await(protocol.ReleaseTooOld)
	w.put("1.2.0", "1.1.0")
	w.await(protocol.Ready)
	w.registration.Set(protocol.Registration{Confirmed: true, Revision: 99})
	w.await(protocol.NotController)
	w.registration.Set(protocol.Registration{})
	w.await(protocol.NotRegistered)
}

// A status from before the registration opens nothing, even where it is the
// newest that etcd has: as of a member that is behind, or a store that went back.
func TestGate_statusFromBefore(t *testing.T) {
	w := newWorld(t)
	w.put("1.1.0", "1.0.0")
	w.registration.Set(protocol.Registration{Confirmed: true, Controller: true, Revision: 1 << 40})
	w.awaitVerdict("registered, and waiting for a read", func(v Verdict) bool { return strings.Contains(v.Message, "1099511627776") })
	last := w.put("1.1.0", "1.0.0")
	for {
		o, changed := w.store.Observed().Load()
		if o.At.Revision >= last {
			break
		}
		<-changed
	}
	if err := w.client.Check(t.Context()); err != nil { // a turn of the gate reads no faster
		t.Fatal(err)
	}
	if v := w.gate.Verdict().Get(); v.Ready {
		t.Errorf("got %+v", v)
	}
	w.register()
	w.await(protocol.Ready)
}

// Keys that only begin like the status are not the status.
func TestStore_longerKeys(t *testing.T) {
	w := newWorld(t)
	resp, err := w.raw.Put(t.Context(), keys.Status()+"-backup", "\xff")
	if err != nil {
		t.Fatal(err)
	}
	for {
		o, changed := w.store.Observed().Load()
		if o.At.Revision >= resp.Header.Revision {
			if o.View.Kind != protocol.StatusAbsent {
				t.Errorf("got %+v", o)
			}
			return
		}
		<-changed
	}
}

// What is ready stays ready while the status is lost, corrupt or out of reach,
// and what is not ready does not become so.
func TestGate_failsStatic(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.putBytes([]byte("\xff\xfe"))
	w.await(protocol.StatusCorrupt)
	w.remove()
	w.await(protocol.StatusMissing)
	w.put("1.1.0", "1.0.0")
	w.await(protocol.Ready)

	rests := func(message string) {
		t.Helper()
		w.awaitVerdict("ready on what was last known", func(v Verdict) bool { return v.Ready && v.Message == message })
	}
	w.remove()
	rests("the status is missing; ready by the last known status until the leader rebuilds it")
	w.putBytes(nil)
	rests("the status is corrupt; ready by the last known status until the leader rebuilds it")
	w.put("1.1.0", "1.0.0")
	w.awaitVerdict("ready by the status", func(v Verdict) bool { return v.Ready && v.Message[:7] == "release" })

	w.server.Stop()
	contact := w.client.Contact()
	go func() { _ = w.client.Check(t.Context()) }() // what a session does
	for {
		c, changed := contact.Load()
		if !c.Connected {
			break
		}
		<-changed
	}
	if v := w.gate.Verdict().Get(); !v.Ready {
		t.Errorf("etcd is away and the gate closed: %+v", v)
	}
	if err := w.server.Restart(); err != nil {
		t.Fatal(err)
	}
}

func TestGate_Stop(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.put("1.1.0", "1.0.0")
	w.await(protocol.Ready)
	w.gate.Stop()
	if v := w.gate.Verdict().Get(); v.Ready || v.Reason != protocol.ShuttingDown {
		t.Errorf("Stop returned with %+v", v)
	}
	w.put("1.2.0", "1.0.0")
	w.gate.Duplicate("another")
	if v := w.gate.Verdict().Get(); v.Reason != protocol.ShuttingDown {
		t.Errorf("got %+v", v)
	}
}

func TestCodec(t *testing.T) {
	s := protocol.Status{
		State: protocol.Working, Version: protocol.Version{Release: rel(t, "1.2.3"), Prerelease: "rc.1", Build: "g0"},
		MinCompatible: rel(t, "1.1.0"), Leader: "n", Epoch: 7, DrainedEpoch: 6, Digest: "d",
		ContentRelease: rel(t, "1.3.0"), ContentEpoch: 9,
	}
	value, err := Encode(s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := Decode(&etcd.KV{Value: value, ModRevision: 5})
	if diff := cmp.Diff(protocol.StatusView{Kind: protocol.StatusPresent, Status: s, Revision: 5}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Decode(nil); got.Kind != protocol.StatusAbsent {
		t.Errorf("no key: got %+v", got)
	}
	if _, err := Encode(protocol.Status{}, time.Now()); err == nil {
		t.Error("a status without a state was encoded")
	}
}

func TestDecode_corrupt(t *testing.T) {
	for name, value := range map[string][]byte{
		"garbage":             []byte("\xff\xfe"),
		"empty":               {},
		"no version":          {0x08, 0x01, 0x1a, 0x00},
		"no minimum":          {0x08, 0x01, 0x12, 0x02, 0x0a, 0x00},
		"no state":            {0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00},
		"a state of tomorrow": {0x08, 0x07, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00},
	} {
		if got := Decode(&etcd.KV{Value: value, ModRevision: 5}); got.Kind != protocol.StatusUndecodable || got.Problem == "" || got.Revision != 5 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// The least that people may write by hand.
	if got := Decode(&etcd.KV{Value: []byte{0x08, 0x01, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00}}); got.Kind != protocol.StatusPresent {
		t.Errorf("got %+v", got)
	}
}

func TestStore_Write(t *testing.T) {
	w := newWorld(t)
	const leader = prefix + "kubernetes/reconciler/leader/1"
	resp, err := w.raw.Put(t.Context(), leader, "me")
	if err != nil {
		t.Fatal(err)
	}
	epoch := resp.Header.Revision
	resp, err = w.raw.Put(t.Context(), keys.Node("n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	fleet := resp.Header.Revision
	st := protocol.Status{State: protocol.Done, Epoch: epoch}
	want := func(name string, g protocol.Guard, ok bool) {
		t.Helper()
		err := w.store.Write(t.Context(), leader, st, g)
		if ok && err != nil || !ok && !errors.Is(err, ErrGuard) {
			t.Errorf("%s: got %v, want it written: %t", name, err, ok)
		}
	}
	want("another leader", protocol.Guard{Epoch: epoch + 1}, false)
	want("the status is there though it was absent", protocol.Guard{Epoch: epoch, StatusRevision: 1}, false)
	want("a node record was modified since", protocol.Guard{Epoch: epoch, FleetRevision: fleet - 1}, false)
	want("all holds", protocol.Guard{Epoch: epoch, FleetRevision: fleet}, true)
	want("the status has changed", protocol.Guard{Epoch: epoch, FleetRevision: fleet}, false)
	now, err := w.store.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("over the status that was read", protocol.Guard{Epoch: epoch, StatusRevision: now.View.Revision}, true)
	if _, err := w.raw.Delete(t.Context(), leader); err != nil {
		t.Fatal(err)
	}
	now, err = w.store.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("the leader's key is gone", protocol.Guard{Epoch: epoch, StatusRevision: now.View.Revision}, false)
}
