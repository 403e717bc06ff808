package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// ruins are the facts of a fleet of n nodes that are all dead.
func ruins(n int) Facts {
	f := Facts{Node: "a", Leading: true, Reached: true, Fleet: protocol.Fleet{Revision: 1}}
	f.Status = status(protocol.Done, protocol.Release{Major: 1}, 1)
	for i := range n {
		f.Fleet.Records = append(f.Fleet.Records, record(protocol.NodeID(fmt.Sprintf("n-%05d", i)), protocol.Release{Major: 1}, int64(i+1)))
		f.Fleet.Records[i].Alive = false
	}
	return f
}

// TestLedger_more: conditions beyond the bound of a ledger neither begin again and again, nor keep out an important one.
func TestLedger_more(t *testing.T) {
	l, facts := NewLedger("a", t0), ruins(2*maxHeld)
	began := func(second int) int {
		l.Observe(t0.Add(time.Duration(second)*time.Second), facts)
		return len(l.TakeNews())
	}
	if n := began(0); n == 0 {
		t.Fatal("nothing began")
	}
	for i := range 3 {
		if n := began(1 + i); n != 0 {
			t.Fatalf("observation %d: %d things began again", i, n)
		}
	}
	newer := *facts.Fleet.Records[0]
	newer.Node.Version.Release = protocol.Release{Major: 2}
	facts.Fleet.Records = append([]*protocol.Record{&newer}, facts.Fleet.Records[1:]...)
	began(4)
	if open := l.last(func(h *Held) bool { return h.Kind == Upgrade && h.Open() }); open == nil {
		t.Error("the upgrade did not begin")
	}
	if len(l.held) > maxHeld {
		t.Errorf("%d entries are held", len(l.held))
	}
	if n := began(5); n != 0 {
		t.Errorf("after the upgrade began: %d things began again", n)
	}
}

// BenchmarkLedger_largeFleet is an observation by a ledger after one of 5,000 records has changed.
func BenchmarkLedger_largeFleet(b *testing.B) {
	for _, dead := range []bool{false, true} {
		b.Run(fmt.Sprintf("dead=%t", dead), func(b *testing.B) {
			l, facts := NewLedger("a", t0), ruins(5000)
			for _, r := range facts.Fleet.Records {
				r.Alive = !dead
			}
			l.Observe(t0, facts)
			for b.Loop() {
				next := *facts.Fleet.Records[7]
				next.Revision++
				facts.Fleet.Records = append([]*protocol.Record(nil), facts.Fleet.Records...)
				facts.Fleet.Records[7] = &next
				l.Observe(t0, facts)
			}
		})
	}
}
