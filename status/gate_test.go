package status

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestGate_isLive(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.put("1.1.0", "1.0.0")
	since := w.await(protocol.Ready).Since
	w.put("1.2.0", "1.0.0")
	is120 := func(v Verdict) bool { return strings.Contains(v.Message, ", release 1.2.0, ") }
	if v := w.awaitVerdict("that of the new status", is120); !v.Ready || !v.Since.Equal(since) {
		t.Errorf("got %+v, want ready since %s still", v, since)
	}
	w.put("1.2.0", "1.2.0")
	w.await(protocol.ReleaseTooOld)
	w.put("1.2.0", "1.1.0")
	w.await(protocol.Ready)
	w.registration.Set(protocol.Registration{Matches: true, Revision: 99})
	w.await(protocol.NotController)
	w.registration.Set(protocol.Registration{})
	w.await(protocol.NotRegistered)
}

// A ready gate stays ready while the status is missing, corrupt or unreachable. A
// gate that is not ready does not become ready.
func TestGate_failsStatic(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.putBytes([]byte("\xff\xfe"))
	w.await(protocol.StatusCorrupt)
	w.remove()
	w.await(protocol.StatusMissing)
	w.put("1.1.0", "1.0.0")
	w.await(protocol.Ready)

	staysReady := func(message string) {
		t.Helper()
		w.awaitVerdict("ready by the last known status", func(v Verdict) bool { return v.Ready && v.Message == message })
	}
	w.remove()
	staysReady("the status is missing; ready by the last known status until the leader rebuilds it")
	w.putBytes(nil)
	staysReady("the status is corrupt; ready by the last known status until the leader rebuilds it")
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
		t.Errorf("etcd has stopped and the gate closed: %+v", v)
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

// An override opens the gate, and is not remembered: the gate closes when it ends, though
// the status is missing.
func TestGate_override(t *testing.T) {
	w := newWorld(t)
	w.register()
	w.await(protocol.StatusMissing)
	w.override.Set(protocol.Override{Message: "test"})
	w.await(protocol.Overridden)
	w.register()
	w.override.Set(protocol.Override{})
	w.await(protocol.StatusMissing)

	w.put("1.1.0", "1.0.0")
	w.await(protocol.Ready)
	w.override.Set(protocol.Override{Message: "test"})
	w.put("1.2.0", "1.2.0")
	w.await(protocol.Overridden)
	w.remove()
	w.awaitVerdict("that of a missing status", func(v Verdict) bool { return strings.Contains(v.Message, "StatusMissing") })
	w.override.Set(protocol.Override{})
	w.await(protocol.StatusMissing)
}
