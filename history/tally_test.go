package history

import (
	"maps"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestLedger_firstNodeOfUpgrade: the node whose record begins an upgrade was out of service before, which counts. A node that
// was out for another reason counts from the begin of the upgrade.
func TestLedger_firstNodeOfUpgrade(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	step := func(at float64, change func(*Facts)) {
		l.Observe(t0.Add(time.Duration(at*float64(time.Second))), with(func(f *Facts) {
			f.Fleet.Records = append(f.Fleet.Records, record("dead", r1, 3))
			f.Fleet.Records[2].Alive = false
			change(f)
		}))
		s.write(l)
	}
	upgraded := func(f *Facts) { f.Fleet.Records[1] = record("b", r11, 30) }
	step(0, func(*Facts) {})
	step(50, func(f *Facts) { f.Fleet.Records[1].Alive = false }) // a restart of the same release: of no upgrade
	step(55, func(*Facts) {})
	step(90, func(f *Facts) { f.Fleet.Records[1].Presence.Ready = false })
	step(93, func(f *Facts) { f.Fleet.Records[1].Alive = false })
	step(95, func(f *Facts) { upgraded(f); f.Fleet.Records[1].Presence.Ready = false })
	step(95.6, upgraded)
	step(100, func(f *Facts) {
		upgraded(f)
		f.Fleet.Records[0], f.Fleet.Records[2], f.Status = record("a", r11, 60), record("dead", r11, 61), status(protocol.Done, r11, 70)
	})
	got := s.entries(Upgrade)
	if want := map[protocol.NodeID]time.Duration{"b": 5600 * time.Millisecond, "dead": 5 * time.Second}; len(got) != 1 || !maps.Equal(got[0].Out, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
}
