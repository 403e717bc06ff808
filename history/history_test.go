package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

var (
	t0     = time.Date(2026, 1, 1, 14, 2, 0, 0, time.UTC)
	ready  = protocol.Verdict{Ready: true, Reason: protocol.Ready}
	closed = protocol.Verdict{Reason: protocol.Cordoned, Message: "taken out of service"}
	r1     = protocol.Release{Major: 1}
	r11    = protocol.Release{Major: 1, Minor: 1}
)

func record(id protocol.NodeID, release protocol.Release, revision int64) *protocol.Record {
	return &protocol.Record{
		ID: id, Revision: revision, Alive: true,
		Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Revision: revision + 1},
		Node:     protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: release}},
	}
}

func status(state protocol.State, release protocol.Release, revision int64) protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusPresent, Revision: revision, Status: protocol.Status{
		State: state, Version: protocol.Version{Release: release}, ContentRelease: release, Leader: "a", Digest: release.String(),
	}}
}

// steady are the facts of a fleet of two in which nothing happens.
func steady() Facts {
	return Facts{
		Node: "a", Reached: true, Digest: "d", Leader: "a", Epoch: 7, Leading: true, Store: "s", Status: status(protocol.Done, r1, 20),
		Fleet: protocol.Fleet{Revision: 20, Records: []*protocol.Record{record("a", r1, 5), record("b", r1, 9)}},
	}
}

func with(change func(*Facts)) Facts {
	f := steady()
	change(&f)
	return f
}

func texts(hs []Happening) []string {
	out := []string{}
	for _, h := range hs {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %d: %s", h.Kind, h.Node, h.Reason, max(1, h.Count), h.Message)))
	}
	return out
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		name string
		now  Facts
		want []string
	}{
		{"nothing", steady(), nil},
		{"another leader", with(func(f *Facts) { f.Leader, f.Epoch = "b", 9 }), []string{"leader b Elected 1: it leads, after a"}},
		{"the same leader again", with(func(f *Facts) { f.Epoch = 9 }), []string{"leader a Elected 1: it leads"}},
		{"no leader", with(func(f *Facts) { f.Leader, f.Epoch = "", 0 }), nil},
		{"a restricted status", with(func(f *Facts) { f.Status = status(protocol.Working, r1, 25) }), []string{"status a Changed 1: WORKING 1.0.0, minimum 0.0.0 (before: DONE 1.0.0, minimum 0.0.0)"}},
		{"another epoch of a status", with(func(f *Facts) { f.Status.Revision, f.Status.Status.Epoch = 25, 9 }), nil},
		{"other objects", with(func(f *Facts) { f.Status.Status.Digest = "other" }), []string{"status a Changed 1: DONE 1.0.0, minimum 0.0.0, with other objects"}},
		{"a lost status", with(func(f *Facts) { f.Status = protocol.StatusView{Kind: protocol.StatusAbsent} }), []string{"status  Changed 1: no status (before: DONE 1.0.0, minimum 0.0.0)"}},
		{"a new node", with(func(f *Facts) { f.Fleet.Records = append(f.Fleet.Records, record("c", r1, 30)) }), []string{"node c Registered 1: registered with release 1.0.0"}},
		{"a removed node", with(func(f *Facts) { f.Fleet.Records = f.Fleet.Records[:1] }), []string{"node b Removed 1: its record was deleted"}},
		{"an upgraded node", with(func(f *Facts) { f.Fleet.Records[1] = record("b", r11, 30) }), []string{"node b Changed 1: registered with release 1.1.0 (before: 1.0.0)"}},
		{"a corrupt record", with(func(f *Facts) { f.Fleet.Records[1].Revision, f.Fleet.Records[1].Problem = 30, "garbage" }), []string{"node b RecordCorrupt 1: garbage"}},
		{"other roles", with(func(f *Facts) { f.Fleet.Records[1].Revision, f.Fleet.Records[1].Node.Roles.Worker = 30, true }), []string{"node b Changed 1: its roles are kubernetes_controller, kubernetes_worker (before: kubernetes_controller)"}},
		{"a restore", with(func(f *Facts) { f.Fleet.Rewinds++; f.Fleet.Records = nil }), []string{"store  WentBack 1: etcd went back to an older state, as after a restore from a backup, or is another one"}},
		{"another bundle", with(func(f *Facts) { f.Digest = "e" }), []string{"bundle a Changed 1: it runs another bundle, of version 0.0.0"}},
		{"a crashed service", with(func(f *Facts) {
			f.Services = []report.Service{{Name: "kube-apiserver", Restarts: 2, LastExit: "signal: killed"}}
		}), []string{"service a Restarted 2: the service kube-apiserver was started again: signal: killed"}},
		{"a crashed service with output, which stays on its node", with(func(f *Facts) {
			f.Services = []report.Service{{Name: "kube-apiserver", Restarts: 1, LastExit: "exit status 2", LastLines: []string{"DB_PASSWORD=secret"}}}
		}), []string{"service a Restarted 1: the service kube-apiserver was started again: exit status 2"}},
		{"repairs", with(func(f *Facts) { f.Repairs = 3 }), []string{"object a Repaired 3: an object that another client changed was repaired"}},
		{"removals", with(func(f *Facts) { f.Pass, f.Pruned = t0, 2 }), []string{"object a Pruned 2: an object that the bundle dropped was removed"}},
		{"members", with(func(f *Facts) { f.Members = []report.Member{{ID: "1", Node: "a"}, {ID: "3", Node: "c"}} }), []string{"member c MemberAdded 1: member 3 of etcd was added", "member b MemberLeft 1: member 2 has left etcd"}},
		{"an unknown fleet", Facts{Node: "a", Digest: "d"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			was := with(func(f *Facts) {
				f.Services = []report.Service{{Name: "kube-apiserver"}}
				f.Members = []report.Member{{ID: "1", Node: "a"}, {ID: "2", Node: "b"}}
			})
			if got := texts(Compare(was, tc.now)); fmt.Sprint(got) != fmt.Sprint(append([]string{}, tc.want...)) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		name string
		now  Facts
		want string
	}{
		{"nothing", steady(), ""},
		{"etcd is cut off", with(func(f *Facts) { f.EtcdProblem = "timeout" }), "etcd a Unreachable"},
		{"etcd was never reached", Facts{Node: "a", EtcdProblem: "timeout"}, ""},
		{"a kube-apiserver", with(func(f *Facts) { f.APIServer = protocol.Verdict{Reason: protocol.APIServerNotReady, Message: "500"} }), "apiserver a APIServerNotReady"},
		{"an override", with(func(f *Facts) { f.Override.Until = t0 }), "override a OverrideBegun"},
		{"a slow disk", with(func(f *Facts) {
			f.Warnings = []protocol.Warning{{Reason: warn.DiskSlow, Message: "fsync took 2.5s"}}
		}), "warning a DiskSlow"},
		{"a failing service", with(func(f *Facts) { f.Warnings = []protocol.Warning{{Reason: protocol.ServiceFailing, Subject: "x"}} }), "service a ServiceFailing"},
		{"a fight", with(func(f *Facts) { f.Warnings = []protocol.Warning{{Reason: warn.Fight, Subject: "x"}} }), "object a Fight"},
		{"a rejected bundle", with(func(f *Facts) { f.Warnings = []protocol.Warning{{Reason: warn.BundleRejected}} }), "bundle a BundleRejected"},
		{"a killed sidecar", with(func(f *Facts) { f.Fleet.Records[1].Alive = false }), "node b NoPresence"},
		{"a turn", with(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{{Node: "b", Message: "disks", By: "root@b", Revision: 50}}
		}), "turn b TurnUnderWay"},
		{"a turn whose work failed", with(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{{Node: "b", Command: "reboot", Work: protocol.TurnWorkFailed, Revision: 50}}
		}), "turn b TurnUnderWay planned work: reboot | turn b TurnFailed planned work, which failed: reboot"},
		{"a turn whose command was killed", with(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{{
				Node: "b", Command: "kubeadm upgrade node", By: "root@b", Work: protocol.TurnWorkInterrupted, Problem: "it was killed by signal 9 (killed)", Revision: 50,
			}}
		}), "turn b TurnUnderWay planned work: kubeadm upgrade node, by root@b | turn b TurnFailed planned work, which failed: kubeadm upgrade node, by root@b: it was killed by signal 9 (killed)"},
		{"a turn whose long command failed", with(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{{Node: "b", Command: strings.Repeat("x", 500), Work: protocol.TurnWorkFailed, Problem: "it ended with exit code 5"}}
		}), "turn b TurnUnderWay planned work: " + strings.Repeat("x", 500) + " | turn b TurnFailed planned work, which failed: " + strings.Repeat("x", 500) + ": it ended with exit code 5"},
		{"a cordon", with(func(f *Facts) { f.Fleet.Records[1].Node.Cordon.Since = t0 }), "cordon b Cordoned"},
		{"a blocker", with(func(f *Facts) { f.Blockers = []protocol.Blocker{{Node: "b", Reason: protocol.ReleaseTooOld}} }), "blocked b ReleaseTooOld"},
		{"an upgrade", with(func(f *Facts) { f.Fleet.Records[1] = record("b", r11, 30) }), "upgrade  Begun"},
		{"a newer node of another bundle", with(func(f *Facts) {
			f.Status.Status.Bundle, f.Fleet.Records[1] = "acme", record("b", r11, 30)
			f.Fleet.Records[0].Node.Bundle, f.Fleet.Records[1].Node.Bundle = "acme", "base"
		}), ""},
		{"objects ahead of the nodes", with(func(f *Facts) { f.Status = status(protocol.Done, r11, 30) }), "upgrade  Begun"},
		{"a rollback", with(func(f *Facts) { f.Fleet.Rollback = protocol.Rollback{To: r1, Revision: 40} }), "rollback  Begun"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			for _, h := range conditions(tc.now, censusOf(tc.now.Fleet)) {
				if got != "" {
					got += " | "
				}
				got += strings.TrimSpace(fmt.Sprintf("%s %s %s %s", h.Kind, h.Node, h.Reason, h.Message))
			}
			if got != tc.want && !strings.HasPrefix(got, tc.want+" ") { // a message is compared only if the test has one
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// store keeps what a ledger writes, as etcd would.
type store struct {
	kept     map[string]Held
	revision int64
}

func (s *store) write(l *Ledger) {
	for _, h := range l.Due(1000) {
		s.revision++
		h.Revision = s.revision
		if s.kept == nil {
			s.kept = map[string]Held{}
		}
		s.kept[h.ID] = h
		l.Written(h, s.revision)
	}
}

func (s *store) entries(kind Kind) (out []Entry) {
	for _, h := range s.kept {
		if h.Kind == kind {
			out = append(out, h.Entry)
		}
	}
	Sort(out)
	return out
}

func (s *store) held() (out []Held) {
	for _, h := range s.kept {
		out = append(out, Held{Entry: h.Entry, Revision: h.Revision})
	}
	return out
}

func counted(entries []Entry) (n int) {
	for _, e := range entries {
		n += e.Count
	}
	return n
}

// TestLedger_eachClosingCounts: however closings lie in time, and however often the ledger is
// written in between, no closing is lost and none counts twice.
func TestLedger_eachClosingCounts(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		at, l, s := t0, NewLedger("a", t0), &store{}
		l.Verdict(at, protocol.Verdict{}, ready)
		want := 1 + rnd.IntN(100)
		var lasted time.Duration
		for range want {
			at = at.Add(time.Duration(rnd.Int64N(int64(2 * mergeWithin))))
			l.Verdict(at, ready, closed)
			if rnd.IntN(3) == 0 {
				s.write(l)
			}
			d := time.Duration(1 + rnd.Int64N(int64(time.Second)))
			at, lasted = at.Add(d), lasted+d
			l.Verdict(at, closed, ready)
			if rnd.IntN(3) == 0 {
				s.write(l)
				l.Observe(at, steady())
			}
		}
		s.write(l)
		got := s.entries(Gate)
		var total time.Duration
		for _, e := range got {
			if e.Open() {
				t.Fatalf("seed %d: open: %+v", seed, e)
			}
			if e.Count == 1 {
				e.Lasted = e.Until.Sub(e.Time)
			}
			total += e.Lasted
		}
		if counted(got) != want || total != lasted {
			t.Fatalf("seed %d: got %d closings of %s, want %d of %s", seed, counted(got), total, want, lasted)
		}
	}
}

func TestLedger_twentyClosings(t *testing.T) {
	at, l, s := t0, NewLedger("a", t0), &store{}
	l.Verdict(at, protocol.Verdict{}, ready)
	for range 20 {
		l.Verdict(at, ready, closed)
		at = at.Add(50 * time.Millisecond)
		l.Verdict(at, closed, ready)
		at = at.Add(50 * time.Millisecond)
	}
	s.write(l)
	got := s.entries(Gate)
	if len(got) != 1 || got[0].Count != 20 || got[0].Lasted != time.Second {
		t.Errorf("got %+v, want one entry of 20 closings with 1s", got)
	}
	if want := "taken out of service (20 times, 1s in all)"; len(got) == 1 && got[0].Sentence() != want {
		t.Errorf("got %q, want %q", got[0].Sentence(), want)
	}
}

func TestLedger_idleWritesNothing(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	l.Verdict(t0, protocol.Verdict{}, ready)
	l.Observe(t0, steady())
	s.write(l)
	for i := range 1000 {
		l.Observe(t0.Add(time.Duration(i)*time.Minute), steady())
		if due := l.Due(10); len(due) > 0 {
			t.Fatalf("due: %+v", due)
		}
	}
	if len(l.held) > 0 {
		t.Errorf("it holds %d entries of the past", len(l.held))
	}
}

// TestLedger_restart: a sidecar ends what the one before it began on its node.
func TestLedger_restart(t *testing.T) {
	for _, adoptsFirst := range []bool{true, false} {
		s, old := &store{}, NewLedger("a", t0)
		old.Verdict(t0, protocol.Verdict{}, ready)
		old.Verdict(t0.Add(time.Minute), ready, protocol.Verdict{Reason: protocol.ShuttingDown})
		s.write(old)
		l := NewLedger("a", t0.Add(70*time.Second))
		if adoptsFirst {
			l.Adopt(t0.Add(71*time.Second), s.held())
		}
		l.Verdict(t0.Add(80*time.Second), protocol.Verdict{}, ready)
		if !adoptsFirst {
			l.Adopt(t0.Add(81*time.Second), s.held())
		}
		s.write(l)
		got := s.entries(Gate)
		if len(got) != 1 || got[0].Until.Sub(got[0].Time) != 20*time.Second || got[0].Reason != protocol.ShuttingDown {
			t.Errorf("adopts first: %t: got %+v, want one entry of 20s", adoptsFirst, got)
		}
	}
}

// TestLedger_leaderDies: the next leader writes what the last one could not, and writes nothing
// twice.
func TestLedger_leaderDies(t *testing.T) {
	s, a, b := &store{}, NewLedger("a", t0), NewLedger("b", t0)
	follows := func(f Facts) Facts { f.Node, f.Leading = "b", false; return f }
	a.Observe(t0, steady())
	b.Observe(t0, follows(steady()))
	cordoned := with(func(f *Facts) { f.Fleet.Records[1].Node.Cordon.Since = t0; f.Fleet.Records[1].Revision = 44 })
	a.Observe(t0.Add(time.Second), cordoned)
	b.Observe(t0.Add(time.Second), follows(cordoned))
	s.write(a)
	s.write(b)
	if got := s.entries(Cordon); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	dead := with(func(f *Facts) {
		f.Node, f.Leader, f.Epoch = "b", "b", 50
		f.Fleet.Records[0].Alive = false
		f.Fleet.Records[1] = record("b", r1, 45)
	})
	b.Adopt(t0.Add(2*time.Second), s.held())
	b.Observe(t0.Add(2*time.Second), dead)
	s.write(b)
	for kind, want := range map[Kind]int{Cordon: 1, Node: 1, Leader: 1} {
		if got := s.entries(kind); len(got) != want {
			t.Errorf("%s: got %+v, want %d", kind, got, want)
		}
	}
	if got := s.entries(Cordon); len(got) == 1 && !got[0].Until.Equal(t0.Add(2*time.Second)) {
		t.Errorf("the cordon has not ended: %+v", got)
	}
}

// TestLedger_upgrade is one entry from the first node to the last.
func TestLedger_upgrade(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	step := func(at int, change func(*Facts)) {
		l.Observe(t0.Add(time.Duration(at)*time.Second), with(change))
		s.write(l)
	}
	step(0, func(*Facts) {})
	step(10, func(f *Facts) { f.Fleet.Records[1].Alive = false })
	step(13, func(f *Facts) { f.Fleet.Records[1] = record("b", r11, 30) })
	step(14, func(f *Facts) {
		f.Fleet.Records[1] = record("b", r11, 30)
		f.Blockers = []protocol.Blocker{{Node: "a", Reason: protocol.ReleaseTooOld}}
	})
	step(20, func(f *Facts) { f.Fleet.Records[0].Alive, f.Fleet.Records[1] = false, record("b", r11, 30) })
	step(24, func(f *Facts) { f.Fleet.Records[0], f.Fleet.Records[1] = record("a", r11, 60), record("b", r11, 30) })
	for i, state := range []protocol.State{protocol.Working, protocol.Done} { // it ends with the objects, not with the last node
		step(25+i, func(f *Facts) {
			f.Fleet.Records[0], f.Fleet.Records[1], f.Status = record("a", r11, 60), record("b", r11, 30), status(state, r11, 69+int64(i))
		})
	}
	got := s.entries(Upgrade)
	if len(got) != 1 {
		t.Fatalf("got %+v, want one entry", got)
	}
	e := got[0]
	if e.Until.Sub(e.Time) != 13*time.Second || e.Reason != Done || e.Out["a"] != 4*time.Second || e.Waits["a"] != 6*time.Second {
		t.Errorf("got %+v", e)
	}
	if want := "releases 1.0.0 and 1.1.0, objects of 1.0.0 when it began; ended with objects of 1.1.0, DONE; it waited for a 6s; out of service: a 4s, b 3s"; e.Sentence() != want {
		t.Errorf("got  %q\nwant %q", e.Sentence(), want)
	}
}

func TestLedger_bounded(t *testing.T) {
	l := NewLedger("a", t0)
	at := t0
	for i := range 5000 {
		at = at.Add(2 * mergeWithin)
		l.Observe(at, with(func(f *Facts) {
			f.Warnings = []protocol.Warning{{Reason: warn.ObjectFailed, Subject: fmt.Sprint(i), Message: strings.Repeat("ü", 4000)}}
		}))
	}
	if len(l.held) > maxHeld {
		t.Errorf("it holds %d entries", len(l.held))
	}
	for _, h := range l.held {
		if len(h.Message) > MaxMessage || strings.ContainsRune(h.Message, '�') {
			t.Errorf("message of %d bytes", len(h.Message))
		}
	}
}

// TestLedger_wholeCommand: an entry has all of a turn's command, and how it ended. An Event has room for less.
func TestLedger_wholeCommand(t *testing.T) {
	l := NewLedger("a", t0)
	l.Observe(t0, steady())
	command := strings.Repeat("x", protocol.MaxWarningMessage)
	l.Observe(t0.Add(time.Second), with(func(f *Facts) {
		f.Fleet.Turns.Held = []protocol.Turn{{Node: "b", Command: command, By: "root@b", Work: protocol.TurnWorkFailed, Problem: "exit code 5", Revision: 50}}
	}))
	for _, h := range l.held {
		if h.Kind == Turn && h.Reason == warn.TurnFailed {
			if !strings.Contains(h.Message, command+", by root@b: exit code 5") || len(h.Note()) != maxNote {
				t.Errorf("got %q with a note of %d bytes", h.Message, len(h.Note()))
			}
			return
		}
	}
	t.Error("there is no entry of the turn")
}

func TestDrop(t *testing.T) {
	var all []Entry
	add := func(kind Kind, node protocol.NodeID, at time.Time) {
		all = append(all, Entry{ID: fmt.Sprint(len(all)), Kind: kind, Node: node, Time: at, Reason: protocol.Ready})
	}
	for i := range 300 {
		add(Gate, "flapping", t0.Add(time.Duration(i)*time.Hour))
	}
	for i := range 30 {
		add(Upgrade, "", t0.AddDate(0, -6, i))
		add(Gate, "cp-2", t0.AddDate(0, 0, -i))
	}
	for i := range 900 {
		add(Status, protocol.NodeID(fmt.Sprint(i)), t0.Add(time.Duration(i)*time.Minute))
	}
	dropped := Drop(all, 900)
	if len(dropped) != len(all)-900 {
		t.Fatalf("got %d", len(dropped))
	}
	counts := map[string]int{}
	for _, e := range dropped {
		counts[string(e.Kind)]++
		if e.Kind == Upgrade || e.Node == "cp-2" {
			t.Fatalf("dropped %+v", e)
		}
	}
	if counts["gate"] != 300-fair {
		t.Errorf("got %v, want %d closings of one node", counts, 300-fair)
	}
	if Drop(all, 2000) != nil {
		t.Error("dropped something although there is room")
	}
}
