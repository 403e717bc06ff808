package status

import (
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// statusNotRead is the verdict between a registration and the next read.
func statusNotRead(v Verdict) bool {
	return v.Reason == protocol.NotRegistered && v.Message == "this node's record is written; the registration is complete when the status has been read since then"
}

// A status that was read before the registration does not open the gate, even if it
// admits the node: the gate reads it again after the registration.
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

	// Registered, but etcd is unreachable: a status from the watch does not count.
	w.proxy.Cut(etcdtest.Blackhole)
	w.register()
	w.awaitVerdict("registered, status not read", statusNotRead)
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

// A status from before the registration does not open the gate, even if etcd has no
// newer one: a member can lag behind, or the store can have gone back.
func TestGate_statusFromBefore(t *testing.T) {
	w := newWorld(t)
	w.put("1.1.0", "1.0.0")
	w.registration.Set(protocol.Registration{Matches: true, Controller: true, Revision: 1 << 40})
	w.awaitVerdict("registered, status not read", statusNotRead)
	last := w.put("1.1.0", "1.0.0")
	for {
		o, changed := w.store.Observed().Load()
		if o.At.Revision >= last {
			break
		}
		<-changed
	}
	if err := w.client.Check(t.Context()); err != nil { // the gate had time to read the status
		t.Fatal(err)
	}
	if v := w.gate.Verdict().Get(); v.Ready {
		t.Errorf("got %+v", v)
	}
	w.register()
	w.await(protocol.Ready)
}

// A fenced gate opens only with a status that was read after the new registration,
// whatever the watch has observed.
func TestGate_fenced(t *testing.T) {
	w := newWorld(t)
	w.put("1.1.0", "1.0.0")
	w.register()
	w.await(protocol.Ready)
	w.registration.Set(protocol.Registration{Overdue: true})
	w.await(protocol.Fenced)
	// A status that admits the node does not open the gate.
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
