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

// wantOut requires the times out of service in the one upgrade or rollback of a store.
func wantOut(t *testing.T, s *store, kind Kind, want map[protocol.NodeID]time.Duration) {
	t.Helper()
	if got := s.entries(kind); len(got) != 1 || !maps.Equal(got[0].Out, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
}

func after(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// TestLedger_firstNodeLeads: the node that begins an upgrade leads as soon as it has registered, and its new sidecar writes the
// entry. It was out of service since the sidecar before it stopped, or since the former leader missed that one.
func TestLedger_firstNodeLeads(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, adopts := range []float64{53.5, 54.5, 60.5} { // before it serves, then, and later
			s, a, old := &store{}, NewLedger("a", t0), NewLedger("b", t0)
			see := func(l *Ledger, at float64, change func(*Facts)) {
				l.Observe(after(at), with(func(f *Facts) {
					f.Node, f.Version.Release = l.node, r1
					change(f)
					f.Leading = f.Leader == l.node
				}))
			}
			gone := func(f *Facts) { f.Fleet.Records[1].Alive = false }
			old.Verdict(t0, protocol.Verdict{}, ready)
			see(a, 0, func(*Facts) {})
			see(old, 0, func(*Facts) {})
			began := 50.0
			if killed {
				began = 51
			} else {
				old.Verdict(after(began), ready, protocol.Verdict{Reason: protocol.ShuttingDown})
			}
			s.write(old)
			see(a, 51, gone)
			s.write(a)

			b := NewLedger("b", after(52.8))
			newer := func(change func(*Facts)) func(*Facts) {
				return func(f *Facts) {
					f.Version.Release, f.Fleet.Records[1], f.Leader, f.Epoch = r11, record("b", r11, 30), "b", 40
					change(f)
				}
			}
			waiting := newer(func(f *Facts) { f.Fleet.Records[1].Presence.Ready = false })
			see(b, 52.9, func(f *Facts) { f.Fleet, f.Version.Release, f.Leader = protocol.Fleet{}, r11, "" })
			see(a, 53, func(f *Facts) { waiting(f); f.Leader = "a" })
			s.write(a)
			see(b, 53.1, waiting)
			reread := func(from, to float64) {
				if from <= adopts && adopts < to {
					b.Adopt(after(adopts), s.held())
					s.write(b)
				}
			}
			reread(53.1, 54)
			b.Verdict(after(54), protocol.Verdict{}, ready)
			see(b, 54, newer(func(*Facts) {}))
			reread(54, 60)
			see(b, 60, newer(func(f *Facts) { f.Fleet.Records[0].Alive = false }))
			reread(60, 62)
			see(b, 62, newer(func(f *Facts) { f.Fleet.Records[0], f.Status = record("a", r11, 60), status(protocol.Done, r11, 70) }))
			s.write(b)
			wantOut(t, s, Upgrade, map[protocol.NodeID]time.Duration{"a": 2 * time.Second, "b": after(54).Sub(after(began))})
			if t.Failed() {
				t.Fatalf("killed: %t, it reads the entries at %v", killed, adopts)
			}
		}
	}
}

// TestLedger_onlyNode: in a fleet of one node, no other sidecar sees its outage.
func TestLedger_onlyNode(t *testing.T) {
	s, old := &store{}, NewLedger("a", t0)
	see := func(l *Ledger, at float64, change func(*Facts)) {
		l.Observe(after(at), with(func(f *Facts) { f.Fleet.Records = f.Fleet.Records[:1]; change(f) }))
	}
	old.Verdict(t0, protocol.Verdict{}, ready)
	see(old, 0, func(*Facts) {})
	old.Verdict(after(50), ready, protocol.Verdict{Reason: protocol.ShuttingDown})
	s.write(old)
	l := NewLedger("a", after(53))
	upgraded := func(f *Facts) {
		f.Version.Release, f.Fleet.Records[0] = r11, record("a", r11, 30)
		f.Fleet.Records[0].Presence.Ready = false
	}
	see(l, 53.2, upgraded)
	l.Verdict(after(54), protocol.Verdict{}, ready)
	see(l, 54, func(f *Facts) { upgraded(f); f.Fleet.Records[0].Presence.Ready = true })
	l.Adopt(after(54.5), s.held())
	see(l, 55, func(f *Facts) {
		f.Version.Release, f.Fleet.Records[0], f.Status = r11, record("a", r11, 30), status(protocol.Done, r11, 70)
	})
	s.write(l)
	wantOut(t, s, Upgrade, map[protocol.NodeID]time.Duration{"a": 4 * time.Second})
}

// TestLedger_restartedBefore: a node that was out of service already, with the release of the objects, counts from the begin of
// the upgrade, even if its sidecar has just been started.
func TestLedger_restartedBefore(t *testing.T) {
	s, l := &store{}, NewLedger("a", after(40))
	s.kept = map[string]Held{"gate": {Entry: Entry{ID: "gate", Kind: Gate, Node: "a", Time: after(10), Reason: protocol.Cordoned, Count: 1}, Revision: 1}}
	see := func(at float64, b *protocol.Record) {
		l.Observe(after(at), with(func(f *Facts) {
			f.Version.Release, f.Fleet.Records[0].Presence.Ready, f.Fleet.Records[1] = r1, false, b
		}))
	}
	see(41, record("b", r1, 9))
	see(50, record("b", r11, 30))
	l.Adopt(after(51), s.held())
	l.Verdict(after(60), protocol.Verdict{}, ready)
	l.Observe(after(60), with(func(f *Facts) { f.Version.Release, f.Fleet.Records[1] = r1, record("b", r11, 30) }))
	s.write(l)
	wantOut(t, s, Upgrade, map[protocol.NodeID]time.Duration{"a": 10 * time.Second})
}

// TestLedger_laterNode: a node that was out of service for long, and comes back with the other release while a rollback is
// under way, counts from its begin. A new leader keeps the times that the one before it wrote.
func TestLedger_laterNode(t *testing.T) {
	s, a, b := &store{}, NewLedger("a", t0), NewLedger("b", after(100))
	see := func(l *Ledger, at float64, change func(*Facts)) {
		l.Observe(after(at), with(func(f *Facts) {
			f.Node, f.Leader, f.Version.Release, f.Status = l.node, l.node, r1, status(protocol.Done, r11, 25)
			f.Fleet.Rollback = protocol.Rollback{To: r1, Revision: 33}
			f.Fleet.Records[1].Presence.Ready = false
			change(f)
		}))
	}
	s.kept = map[string]Held{"gate": {Entry: Entry{ID: "gate", Kind: Gate, Node: "b", Time: after(10), Reason: protocol.ShuttingDown, Count: 1}, Revision: 1}}
	see(a, 59, func(f *Facts) { f.Fleet.Rollback = protocol.Rollback{} })
	see(a, 60, func(f *Facts) {
		f.Fleet.Records[0].Presence.Ready, f.Blockers = false, []protocol.Blocker{{Node: "b", Reason: protocol.ReleaseTooOld}}
	})
	see(a, 69, func(*Facts) {})
	s.write(a)
	see(b, 101, func(*Facts) {})
	b.Verdict(after(102), protocol.Verdict{}, ready)
	see(b, 102, func(f *Facts) { f.Fleet.Records[1].Presence.Ready = true })
	b.Adopt(after(103), s.held())
	s.write(b)
	wantOut(t, s, Rollback, map[protocol.NodeID]time.Duration{"a": 9 * time.Second, "b": 42 * time.Second})
	if got := s.entries(Rollback); len(got) == 1 && got[0].Waits["b"] != 9*time.Second {
		t.Errorf("got the waits %v", got[0].Waits)
	}
}

// TestLedger_rollbackBegin: no node leads at the begin of a rollback. The sidecar that leads next started later, and its entry
// still begins when people typed it; a clock that is ahead sets no begin in the future.
func TestLedger_rollbackBegin(t *testing.T) {
	for since, want := range map[float64]float64{5: 5, 30: 11} {
		l, s := NewLedger("a", after(10)), &store{}
		see := func(at float64, r protocol.Rollback) {
			l.Observe(after(at), with(func(f *Facts) { f.Fleet.Rollback = r }))
		}
		see(11, protocol.Rollback{To: r1, Revision: 15, Since: after(since)})
		see(20, protocol.Rollback{})
		s.write(l)
		if got := s.entries(Rollback); len(got) != 1 || !got[0].Time.Equal(after(want)) || !got[0].Until.Equal(after(20)) {
			t.Errorf("begun at %v: got %+v, want it from %s", since, got, after(want))
		}
	}
	t.Run("a clock that is behind", func(t *testing.T) {
		l, s := NewLedger("a", after(10)), &store{}
		for at, f := range []protocol.Rollback{{}, {}, {To: r1, Revision: 15, Since: after(2)}} {
			l.Observe(after(11+float64(at)), with(func(facts *Facts) { facts.Fleet.Rollback = f }))
		}
		s.write(l)
		if got := s.entries(Rollback); len(got) != 1 || !got[0].Time.Equal(after(12)) {
			t.Errorf("got %+v, want it from %s: there was no rollback before", got, after(12))
		}
	})
}
