package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestAbsences(t *testing.T) {
	const after = time.Minute
	begin := time.Now()
	record := func(alive bool, revision int64) protocol.Record {
		return protocol.Record{ID: "n", Alive: alive, Revision: revision, Node: protocol.Node{ID: "n", ExpireAfter: after}}
	}
	type seen struct {
		at      time.Duration
		record  protocol.Record
		rewinds int
		want    time.Duration // for how long it is absent
	}
	for _, tc := range []struct {
		name      string
		snapshots []seen
	}{
		{"counts from the first snapshot", []seen{{0, record(false, 5), 0, 0}, {time.Second, record(false, 5), 0, time.Second}, {after, record(false, 5), 0, after}}},
		{"alive in between", []seen{{0, record(false, 5), 0, 0}, {1, record(true, 5), 0, 0}, {after, record(false, 5), 0, 0}, {after + 3, record(false, 5), 0, 3}}},
		{"written in between: it may have been alive", []seen{{0, record(false, 5), 0, 0}, {after, record(false, 6), 0, 0}, {after + 3, record(false, 6), 0, 3}}},
		{"the store went back in between", []seen{{0, record(false, 5), 0, 0}, {after, record(false, 5), 1, 0}, {after + 3, record(false, 5), 1, 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a absences
			for _, l := range tc.snapshots {
				f := protocol.Fleet{Records: []*protocol.Record{&l.record}}
				now := begin.Add(l.at)
				a.count(f, l.rewinds, now, now)
				if got := f.Records[0].Gone; got != l.want {
					t.Errorf("at %s: absent for %s, want %s", l.at, got, l.want)
				}
			}
		})
	}
	t.Run("counts from when the first answer came, to when the next request began", func(t *testing.T) {
		var a absences
		one := record(false, 5)
		f := protocol.Fleet{Records: []*protocol.Record{&one}}
		a.count(f, 0, begin, begin.Add(10*time.Second))
		a.count(f, 0, begin.Add(15*time.Second), begin.Add(20*time.Second))
		if got := f.Records[0].Gone; got != 5*time.Second {
			t.Errorf("absent for %s, want 5s", got)
		}
	})
}

// A node that is not alive for a short time may be restarting, which changes only messages: they are shown, too.
func TestAbsences_restarts(t *testing.T) {
	begin := time.Now()
	for passed, want := range map[time.Duration]bool{0: true, protocol.RemoveAfter - 1: true, protocol.RemoveAfter: false} {
		var a absences // of a leader that has just been elected, or whose count began again because the record was written
		now := begin.Add(passed)
		f := protocol.Fleet{Records: []*protocol.Record{{ID: "n", Revision: 5}}}
		a.count(f, 0, now, now)
		marked := a.restarts(f, func(protocol.NodeID) time.Time { return begin }, now)
		if got := marked.Records[0]; got.MayRestart != want || got.Gone != 0 || f.Records[0].MayRestart {
			t.Errorf("after %s: got %t, gone for %s", passed, got.MayRestart, got.Gone)
		}
		if next := (&deadlines{now: now}).next(time.Time{}, a.ends()...); want != next.Equal(begin.Add(protocol.RemoveAfter)) {
			t.Errorf("after %s: the leader decides again at %s", passed, next)
		}
		if got := a.restarts(f, func(protocol.NodeID) time.Time { return time.Time{} }, now); !got.Records[0].MayRestart {
			t.Errorf("after %s: it is missing only in this snapshot, and is taken for one that has stopped", passed)
		}
	}
	waits := func(message string) State {
		return State{Step: protocol.Step{Blockers: []protocol.Blocker{{Node: "n", Message: message}}}}
	}
	if waits("it is not alive").same(waits("remove it")) {
		t.Error("a blocker's new message is not shown")
	}
}
