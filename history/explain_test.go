package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestExplain(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	all := []Entry{
		{Kind: Gate, Node: "cp-1", Time: at(-7200), Until: at(-7100), Reason: protocol.Cordoned},
		{Kind: Warning, Node: "cp-2", Time: at(-30), Until: at(60), Reason: protocol.DiskSlow, Message: "fsync took 2.5s"},
		{Kind: Node, Node: "cp-2", Time: at(10), Until: at(30), Reason: protocol.NoPresence, Message: "its sidecar does not run"},
		{Kind: Sidecar, Node: "cp-2", Time: at(25), Until: at(30), Reason: Started},
		{Kind: Leader, Node: "cp-1", Time: at(11), Until: at(11), Reason: Elected},
		{Kind: Gate, Node: "cp-3", Time: at(-20), Reason: protocol.ServicesNotReady, Message: "kube-apiserver"},
		{Kind: Upgrade, Time: at(-100), Until: at(50), Out: map[protocol.NodeID]time.Duration{"cp-2": 1}},
	}
	for node, want := range map[protocol.NodeID]string{
		"cp-1": "it was in service",
		"cp-2": "out of service from 2026-01-01T14:02:10Z for 20s (it may have stopped up to one --lease-ttl before): NoPresence: its sidecar does not run",
		"cp-3": "until now: ServicesNotReady: kube-apiserver",
		"cp-9": "nothing about this node",
	} {
		if got := Explain(all, node, t0); !strings.Contains(got.Verdict, want) {
			t.Errorf("%s: got %q, want %q", node, got.Verdict, want)
		}
	}
	got := Explain(all, "cp-2", t0)
	if len(got.Causes) != 1 || Cause(got.Causes[0], "cp-2") != "from 2026-01-01T14:01:30Z for 1m30s: DiskSlow: fsync took 2.5s" {
		t.Errorf("got the causes %v", got.Causes)
	}
	if len(got.Node) != 4 || len(got.Fleet) != 2 {
		t.Errorf("got %d entries of the node, %d of the fleet, want 4 and 2", len(got.Node), len(got.Fleet))
	}
}

// TestExplain_inService: a node whose gate stayed open has its trouble of that minute named, and nothing older.
func TestExplain_inService(t *testing.T) {
	crash := Entry{Kind: Service, Node: "cp-2", Time: t0.Add(3 * time.Second), Until: t0.Add(3 * time.Second), Reason: Restarted, Message: "signal: killed"}
	for _, test := range []struct {
		at   time.Time
		want int
	}{{t0, 1}, {t0.Add(3 * time.Second), 1}, {t0.Add(4 * time.Second), 0}, {t0.Add(-2 * time.Minute), 0}} {
		got := Explain([]Entry{crash}, "cp-2", test.at)
		if !strings.HasPrefix(got.Verdict, "it was in service") || len(got.Causes) != test.want {
			t.Errorf("at %s: got %q, %v", test.at, got.Verdict, got.Causes)
		}
	}
	crash.Subject = "api"
	failing := Entry{Kind: Service, Node: "cp-2", Time: t0, Reason: protocol.ServiceFailing, Message: `its service "api" ended`} // as Facts: without a subject
	rejected := Entry{Kind: Service, Node: "cp-2", Time: t0, Reason: protocol.ServicesRejected, Message: "its services directory was rejected"}
	want := `it was in service, as far as the history shows; meanwhile: signal: killed; meanwhile: its service "api" ended`
	if got := Explain([]Entry{crash, failing, rejected}, "cp-2", t0); got.Verdict != want || len(got.Causes) != 3 {
		t.Errorf("got %q, %v, want %q", got.Verdict, got.Causes, want)
	}
	if got, want := Cause(crash, "cp-2"), "at 2026-01-01T14:02:03Z: Restarted: signal: killed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExplain_before: what broke just before an outage is a cause of it, however long the outage lasts, and so is a slow disk of
// another node's member of etcd, on which all wait.
func TestExplain_before(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	all := []Entry{
		{Kind: Service, Node: "cp-2", Time: at(-700), Until: at(-700), Reason: Restarted, Message: "older"},
		{Kind: Service, Node: "cp-2", Time: at(-605), Until: at(-605), Reason: Restarted, Message: "exit status 2"},
		{Kind: Service, Node: "cp-3", Time: at(-605), Until: at(5), Reason: Restarted, Message: "of another node"},
		{Kind: Gate, Node: "cp-2", Time: at(-600), Until: at(600), Reason: protocol.ServicesNotReady, Message: "apiserver"},
		{Kind: Warning, Node: "cp-1", Time: at(-20), Until: at(20), Reason: protocol.DiskSlow, Message: "its disk is slow"},
		{Kind: Warning, Node: "cp-1", Time: at(-20), Until: at(20), Reason: protocol.BundlesDiffer, Message: "of no concern"},
	}
	got := Explain(all, "cp-2", t0)
	var causes []string
	for _, c := range got.Causes {
		causes = append(causes, Cause(c, "cp-2"))
	}
	want := []string{
		"at 2026-01-01T13:51:55Z: Restarted: exit status 2",
		"from 2026-01-01T14:01:40Z for 40s: DiskSlow: cp-1: its disk is slow",
	}
	if !slices.Equal(causes, want) || !strings.Contains(got.Verdict, "ServicesNotReady") {
		t.Errorf("got %q, %q, want %q", got.Verdict, causes, want)
	}
}

// TestExplain_member: a disk that was slow minutes before a member of etcd failed is a possible cause, one that was slow an
// hour before is not.
func TestExplain_member(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	slow := []Entry{
		{Kind: Warning, Node: "cp-2", Time: at(-4000), Until: at(-3000), Reason: protocol.DiskSlow, Message: "an hour before"},
		{Kind: Warning, Node: "cp-2", Time: at(-900), Until: at(-400), Reason: protocol.DiskSlow, Message: "its disk is slow"},
	}
	for _, fails := range []Entry{
		{Kind: Warning, Node: "cp-2", Time: at(-10), Until: at(60), Reason: protocol.MemberDown},
		{Kind: Etcd, Node: "cp-2", Time: at(-10), Until: at(60), Reason: Unreachable},
	} {
		got := Explain(append(slices.Clip(slow), fails), "cp-2", t0).Causes
		if len(got) != 2 || got[0].Message != "its disk is slow" || got[1].Reason != fails.Reason {
			t.Errorf("got %v", got)
		}
	}
	if got := Explain(slow, "cp-2", t0).Causes; len(got) != 0 {
		t.Errorf("etcd serves: got %v", got)
	}
}

// TestExplain_joined: an entry that joins several outages says of a moment only what was true then.
func TestExplain_joined(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	known := Entry{
		Kind: Gate, Node: "cp-2", Time: at(0), Until: at(160), Reason: protocol.ShuttingDown, Message: "it stops", Count: 2, Lasted: 14 * time.Second,
		Spans: []Span{{at(0), at(7)}, {at(153), at(160)}},
	}
	older, partly, open := known, known, known
	older.Spans = nil
	partly.Count, partly.Spans = 3, known.Spans[1:]
	open.Until, open.Spans = time.Time{}, []Span{known.Spans[0], {From: at(153)}}
	const times = "out of service 2 times between 2026-01-01T14:02:00Z and 2026-01-01T14:04:40Z, 14s in all"
	for _, test := range []struct {
		entry  Entry
		second int
		want   string
	}{
		{known, 5, "out of service from 2026-01-01T14:02:00Z for 7s: ShuttingDown: it stops; " + times},
		{known, 46, "it was in service, as far as the history shows; " + times + ": ShuttingDown"},
		{known, 120, "in service at 2026-01-01T14:04:00Z, then out of service from 2026-01-01T14:04:33Z for 7s: ShuttingDown: it stops; " + times},
		{known, 161, "it was in service, as far as the history shows"},
		{older, 46, times + ", and the history does not say when: ShuttingDown: it stops"},
		{partly, 46, strings.Replace(times, "2 times", "3 times", 1) + ", and the history does not say when: ShuttingDown: it stops"},
		{partly, 155, "out of service from 2026-01-01T14:04:33Z for 7s: ShuttingDown: it stops; " + strings.Replace(times, "2 times", "3 times", 1)},
		{open, 170, "out of service from 2026-01-01T14:04:33Z until now: ShuttingDown: it stops; out of service 2 times since 2026-01-01T14:02:00Z, 14s before this one"},
	} {
		if got := Explain([]Entry{test.entry}, "cp-2", at(test.second)).Verdict; got != test.want {
			t.Errorf("at %d s: got  %q\nwant %q", test.second, got, test.want)
		}
	}
	cause := Entry{Kind: Etcd, Node: "cp-2", Time: at(0), Until: at(160), Reason: Unreachable, Message: "no answer", Count: 2, Lasted: 14 * time.Second, Spans: known.Spans}
	if got := Explain([]Entry{cause}, "cp-2", at(46)).Causes; len(got) > 0 {
		t.Errorf("got the causes %v, between its times", got)
	}
	if got, want := Cause(cause, "cp-2"), "between 2026-01-01T14:02:00Z and 2026-01-01T14:04:40Z: Unreachable: no answer (2 times, 14s in all)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExplain_turn: the gate of a node that has a turn, and its kube-apiserver, which is not ready meanwhile, and again later
// for another reason: the verdict names the turn.
func TestExplain_turn(t *testing.T) {
	apiserver := Entry{
		Time: t0.Add(-time.Minute), Until: t0.Add(2 * time.Minute), Kind: APIServer, Node: "a", Reason: protocol.APIServerNotReady,
		Message: "context deadline exceeded", Count: 2, Spans: []Span{{t0, t0.Add(time.Minute)}, {t0.Add(90 * time.Second), t0.Add(2 * time.Minute)}},
	}
	gate := Entry{Time: t0, Until: t0.Add(time.Minute), Kind: Gate, Node: "a", Reason: protocol.Cordoned, Message: "for its turn", Count: 1}
	for _, all := range [][]Entry{{apiserver, gate}, {gate, apiserver}} {
		if got := Explain(all, "a", t0.Add(10*time.Second)).Verdict; !strings.Contains(got, "Cordoned: for its turn") {
			t.Errorf("got %q", got)
		}
	}
}

// TestExplain_symptom: the warning about an outage is no cause of it.
func TestExplain_symptom(t *testing.T) {
	const notReady = "APIServerNotReady"
	at := Span{t0, t0.Add(10 * time.Second)}
	all := []Entry{
		{Kind: APIServer, Node: "cp-2", Time: at.From, Until: at.Until, Reason: notReady, Message: "refused", Count: 1},
		{Kind: Warning, Node: "cp-2", Time: at.From, Until: at.Until, Reason: notReady, Message: "refused", Count: 1},
		{Kind: Service, Node: "cp-2", Time: at.From, Until: at.From, Reason: Restarted, Message: "killed", Count: 1},
	}
	if got := Explain(all, "cp-2", t0).Causes; len(got) != 1 || got[0].Kind != Service {
		t.Errorf("got the causes %+v", got)
	}
}
