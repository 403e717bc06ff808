package history

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// stuck is an upgrade of two nodes whose objects fail.
type stuck struct {
	*testing.T
	l *Ledger
	s *store
}

// see lets a ledger observe a fleet whose nodes have been upgraded, and writes what is due.
func (u stuck) see(at float64, state protocol.State, changes ...func(*Facts)) {
	u.l.Observe(after(at), with(func(f *Facts) {
		f.Version.Release, f.Status = r11, status(state, r11, 69)
		f.Fleet.Records = []*protocol.Record{record("a", r11, 60), record("b", r11, 30)}
		for _, change := range changes {
			change(f)
		}
	}))
	u.s.write(u.l)
}

func (u stuck) want(open bool, sentence string) {
	u.Helper()
	got := u.s.entries(Upgrade)
	if len(got) != 1 || got[0].Open() != open || got[0].Sentence() != sentence {
		u.Fatalf("got  %+v\n%q\nwant open: %t, %q", got, got[0].Sentence(), open, sentence)
	}
}

func objectFails(object string) func(*Facts) {
	return func(f *Facts) { f.Warnings = []protocol.Warning{{Reason: warn.ObjectFailed, Subject: object}} }
}

func bOut(f *Facts) { f.Fleet.Records[1].Presence.Ready = false }

// newStuck upgrades b at 10 s for 3 s, and a at 20 s for 4 s.
func newStuck(t *testing.T) stuck {
	u := stuck{t, NewLedger("a", t0), &store{}}
	older := func(f *Facts) { f.Fleet.Records[0], f.Status = record("a", r1, 5), status(protocol.Done, r1, 20) }
	u.see(0, protocol.Done, older, func(f *Facts) { f.Fleet.Records[1] = record("b", r1, 9) })
	u.see(10, protocol.Done, older, bOut)
	u.see(13, protocol.Done, older)
	u.see(20, protocol.Done, older, func(f *Facts) { f.Fleet.Records[0].Presence.Ready = false })
	u.see(24, protocol.Done, func(f *Facts) { f.Status = status(protocol.Done, r1, 20) })
	return u
}

const (
	upgrading = "releases 1.0.0 and 1.1.0, objects of 1.0.0 when it began"
	nodesOut  = "; out of service: a 4s, b 3s"
)

// TestLedger_objectsFail: an upgrade goes on while an object fails, and says so. A later outage is none of its own, also for
// the next leader.
func TestLedger_objectsFail(t *testing.T) {
	u := newStuck(t)
	u.see(25, protocol.Working)
	u.see(30, protocol.Working, objectFails("ConfigMap x"))
	u.want(true, upgrading+"; all nodes serve since 2026-01-01T14:02:24Z, the objects are not complete (failed: ConfigMap x)"+nodesOut)
	u.see(600, protocol.Working, bOut)
	u.see(700, protocol.Working)

	u.l = NewLedger("a", after(800))
	u.see(801, protocol.Working, bOut)
	u.l.Adopt(after(802), u.s.held())
	u.see(803, protocol.Working, bOut, func(f *Facts) { f.Blockers = []protocol.Blocker{{Node: "b", Reason: protocol.ReleaseTooOld}} })
	u.see(900, protocol.Working, bOut)
	u.see(7224, protocol.Done, bOut)
	u.want(false, upgrading+"; ended with objects of 1.1.0, DONE; all nodes served after 14s, it waited for the objects for 2h0m (failed: ConfigMap x)"+nodesOut)

	e := u.s.entries(Upgrade)
	lanes := Picture{Entries: e, From: after(0), To: after(9600), Width: 8}.Lanes()
	if got := string(lanes[0].Cells); got != "═───────"[:3*7]+"·" {
		t.Errorf("got the lane %s", got)
	}
}

// TestLedger_objectsComplete: objects that fail for a moment after the last node are not worth a word.
func TestLedger_objectsComplete(t *testing.T) {
	u := newStuck(t)
	u.see(25, protocol.Working, objectFails("ConfigMap x"))
	u.see(50, protocol.Done)
	u.want(false, upgrading+"; ended with objects of 1.1.0, DONE"+nodesOut)
	if e := u.s.entries(Upgrade)[0]; len(e.Objects) > 0 {
		t.Errorf("it names %v", e.Objects)
	}
}

// TestLedger_nextRelease: an upgrade whose objects fail goes on with the nodes of the release that repairs them. What was out of
// service in between does not count, and the node that begins it counts from its stop.
func TestLedger_nextRelease(t *testing.T) {
	u := newStuck(t)
	r12 := protocol.Release{Major: 1, Minor: 2}
	third := func(f *Facts) { f.Fleet.Records = append(f.Fleet.Records, record("c", r11, 61)) }
	u.see(25, protocol.Working, third, objectFails("ConfigMap x"))
	u.see(100, protocol.Working, third, bOut)
	u.see(200, protocol.Working, third, bOut, func(f *Facts) { f.Fleet.Records[2].Presence.Ready = false })
	u.see(210, protocol.Working, third, bOut, func(f *Facts) { f.Fleet.Records[2] = record("c", r12, 80) })
	u.see(220, protocol.Working, third, func(f *Facts) { f.Fleet.Records[2] = record("c", r12, 80) })
	u.want(true, upgrading+"; out of service: b 13s, c 10s, a 4s")
	u.see(230, protocol.Done, third, func(f *Facts) {
		f.Status = status(protocol.Done, r12, 90)
		for i, id := range []protocol.NodeID{"a", "b", "c"} {
			f.Fleet.Records[i] = record(id, r12, 91)
		}
	})
	u.want(false, upgrading+"; ended with objects of 1.2.0, DONE; out of service: b 13s, c 10s, a 4s")
}

// TestRolledOut is about when nodes are complete.
func TestRolledOut(t *testing.T) {
	upgraded := func(f *Facts) {
		f.Fleet.Records, f.Status = []*protocol.Record{record("a", r11, 60), record("b", r11, 30)}, status(protocol.Working, r11, 69)
	}
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   bool
	}{
		"upgraded":                   {func(*Facts) {}, true},
		"objects are to follow":      {func(f *Facts) { f.Status = status(protocol.Done, r1, 20) }, true},
		"a worker is no controller":  {func(f *Facts) { f.Fleet.Records[1].Node = protocol.Node{ID: "b"} }, true},
		"one is older":               {func(f *Facts) { f.Fleet.Records[1] = record("b", r1, 9) }, false},
		"one does not serve":         {bOut, false},
		"one is not alive":           {func(f *Facts) { f.Fleet.Records[1].Alive = false }, false},
		"a corrupt record":           {func(f *Facts) { f.Fleet.Records[1].Problem, f.Fleet.Records[1].Alive = "garbage", false }, false},
		"a blocker":                  {func(f *Facts) { f.Blockers = []protocol.Blocker{{Node: "b"}} }, false},
		"all are older":              {func(f *Facts) { f.Status = status(protocol.Done, protocol.Release{Major: 2}, 70) }, false},
		"no status":                  {func(f *Facts) { f.Status = protocol.StatusView{Kind: protocol.StatusAbsent} }, false},
		"no nodes":                   {func(f *Facts) { f.Fleet.Records = nil }, false},
		"a rollback that begins":     {func(f *Facts) { f.Fleet.Rollback = protocol.Rollback{To: r1, Revision: 40} }, false},
		"a rollback to that release": {func(f *Facts) { f.Fleet.Rollback = protocol.Rollback{To: r11, Revision: 40} }, true},
	} {
		f := steady()
		upgraded(&f)
		tc.change(&f)
		if got := f.rolledOut(censusOf(f.Fleet)); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	old := Entry{Kind: Upgrade, Time: t0, Until: t0.Add(time.Hour), Message: "m", Count: 1}
	if got := old.Sentence(); strings.Contains(got, "nodes") {
		t.Errorf("an entry of an older program says %q", got)
	}
}
