package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// minuteOf is the minute that begins then, secondOf the second.
func minuteOf(at time.Time) Asked { return Asked{at, at.Add(time.Minute)} }
func secondOf(at time.Time) Asked { return Asked{at, at.Add(time.Second)} }

// lines is the verdict with its lines.
func (x Explanation) lines() string {
	return strings.Join(append([]string{x.Verdict}, x.Outages...), "\n")
}

func TestExplain(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	all := []Entry{
		{Kind: Gate, Node: "cp-1", Time: at(-7200), Until: at(-7100), Reason: protocol.Cordoned},
		{Kind: Warning, Node: "cp-2", Time: at(-30), Until: at(60), Reason: warn.DiskSlow, Message: "fsync took 2.5s"},
		{Kind: Node, Node: "cp-2", Time: at(10), Until: at(30), Reason: protocol.NoPresence, Message: "its sidecar does not run"},
		{Kind: Sidecar, Node: "cp-2", Time: at(25), Until: at(30), Reason: Started, Message: "it started"},
		{Kind: Leader, Node: "cp-1", Time: at(11), Until: at(11), Reason: Elected},
		{Kind: Gate, Node: "cp-3", Time: at(-20), Reason: protocol.ServicesNotReady, Message: "kube-apiserver"},
		{Kind: Upgrade, Time: at(-100), Until: at(50), Out: map[protocol.NodeID]time.Duration{"cp-2": 1}},
	}
	for node, want := range map[protocol.NodeID]string{
		"cp-1": "it was in service, as far as the history shows\n" +
			"before that: out of service from 2026-01-01T12:02:00Z for 1m40s: Cordoned: \n" +
			"after that: none is known",
		"cp-2": "out of service from 2026-01-01T14:02:10Z for 20s (it may have stopped up to one --lease-ttl before): NoPresence: its sidecar does not run\n" +
			"from 2026-01-01T14:02:10Z for 20s: NoPresence\n" +
			"from 2026-01-01T14:02:25Z for 5s: Started: it started",
		"cp-3": "out of service from 2026-01-01T14:01:40Z until now: ServicesNotReady: kube-apiserver",
		"cp-9": "the history has nothing about this node",
	} {
		if got := Explain(all, node, minuteOf(t0)).lines(); got != want {
			t.Errorf("%s: got  %q\nwant %q", node, got, want)
		}
	}
	got := Explain(all, "cp-2", minuteOf(t0))
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
	known := Entry{Kind: Sidecar, Node: "cp-2", Time: t0.Add(-time.Hour), Until: t0.Add(-time.Hour), Reason: Started}
	for _, test := range []struct {
		asked Asked
		want  int
	}{
		{minuteOf(t0), 1}, {secondOf(t0.Add(3 * time.Second)), 1}, {secondOf(t0), 1}, // people mean about that second
		{secondOf(t0.Add(4 * time.Second)), 0}, {minuteOf(t0.Add(-2 * time.Minute)), 0},
	} {
		got := Explain([]Entry{known, crash}, "cp-2", test.asked)
		if !strings.HasPrefix(got.Verdict, "it was in service") || len(got.Causes) != test.want {
			t.Errorf("at %v: got %q, %v", test.asked, got.Verdict, got.Causes)
		}
	}
	crash.Subject = "api"
	failing := Entry{Kind: Service, Node: "cp-2", Time: t0, Reason: protocol.ServiceFailing, Message: `its service "api" ended`} // as Facts: without a subject
	rejected := Entry{Kind: Service, Node: "cp-2", Time: t0, Reason: warn.ServicesRejected, Message: "its services directory was rejected"}
	want := `it was in service, as far as the history shows; meanwhile: signal: killed; meanwhile: its service "api" ended`
	if got := Explain([]Entry{known, crash, failing, rejected}, "cp-2", minuteOf(t0)); got.Verdict != want || len(got.Causes) != 3 {
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
		{Kind: Warning, Node: "cp-1", Time: at(-20), Until: at(20), Reason: warn.DiskSlow, Message: "its disk is slow"},
		{Kind: Warning, Node: "cp-1", Time: at(-20), Until: at(20), Reason: warn.BundlesDiffer, Message: "of no concern"},
	}
	got := Explain(all, "cp-2", minuteOf(t0))
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
		{Kind: Warning, Node: "cp-2", Time: at(-4000), Until: at(-3000), Reason: warn.DiskSlow, Message: "an hour before"},
		{Kind: Warning, Node: "cp-2", Time: at(-900), Until: at(-400), Reason: warn.DiskSlow, Message: "its disk is slow"},
	}
	for _, fails := range []Entry{
		{Kind: Warning, Node: "cp-2", Time: at(-10), Until: at(60), Reason: warn.MemberDown},
		{Kind: Etcd, Node: "cp-2", Time: at(-10), Until: at(60), Reason: Unreachable},
	} {
		got := Explain(append(slices.Clip(slow), fails), "cp-2", minuteOf(t0)).Causes
		if len(got) != 2 || got[0].Reason != fails.Reason || got[1].Message != "its disk is slow" {
			t.Errorf("got %v", got)
		}
	}
	if got := Explain(slow, "cp-2", minuteOf(t0)).Causes; len(got) != 0 {
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
	const (
		times   = "out of service 2 times between 2026-01-01T14:02:00Z and 2026-01-01T14:04:40Z, 14s in all"
		first   = "out of service from 2026-01-01T14:02:00Z for 7s: ShuttingDown: it stops; " + times
		second  = "out of service from 2026-01-01T14:04:33Z for 7s: ShuttingDown: it stops; " + times
		serves  = "it was in service, as far as the history shows"
		nothing = "none is known"
	)
	thrice := func(text string) string { return strings.Replace(text, "2 times", "3 times", 1) }
	for _, test := range []struct {
		entry  Entry
		second int
		want   string
	}{
		{known, 5, first},
		{known, 46, serves + "\nbefore that: " + first + "\nafter that: " + second},
		{known, 161, serves + "\nbefore that: " + second + "\nafter that: " + nothing},
		{older, 46, times + ", and the history does not say when: ShuttingDown: it stops\nbefore that: " + nothing + "\nafter that: " + nothing},
		{partly, 46, thrice(times) + ", and the history does not say when: ShuttingDown: it stops\nbefore that: " + nothing + "\nafter that: " + thrice(second)},
		{partly, 155, thrice(second)},
		{open, 170, "out of service from 2026-01-01T14:04:33Z until now: ShuttingDown: it stops; out of service 2 times since 2026-01-01T14:02:00Z, 14s before this one"},
	} {
		if got := Explain([]Entry{test.entry}, "cp-2", secondOf(at(test.second))).lines(); got != test.want {
			t.Errorf("at %d s: got  %q\nwant %q", test.second, got, test.want)
		}
	}
	if got, want := Explain([]Entry{known}, "cp-2", Asked{at(0), at(180)}).lines(), "out of service 2 times, 14s in all\n"+first+"\n"+second; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	cause := Entry{Kind: Etcd, Node: "cp-2", Time: at(0), Until: at(160), Reason: Unreachable, Message: "no answer", Count: 2, Lasted: 14 * time.Second, Spans: known.Spans}
	if got := Explain([]Entry{cause}, "cp-2", secondOf(at(70))).Causes; len(got) > 0 {
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
		if got := Explain(all, "a", secondOf(t0.Add(10*time.Second))).Verdict; !strings.Contains(got, "Cordoned: for its turn") {
			t.Errorf("got %q", got)
		}
	}
}

// TestExplain_knownLater: what is known only after the time that people ask about, while the outage goes on, is a cause too.
func TestExplain_knownLater(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	failed := func(second int) Entry {
		return Entry{Kind: Turn, Node: "a", Time: at(second), Reason: warn.TurnFailed, Message: "killed", Count: 1}
	}
	for until, want := range map[int]int{0: 1, 100: 1, 80: 0} { // 0: it goes on
		gate := Entry{Kind: Gate, Node: "a", Time: t0, Reason: protocol.Cordoned, Count: 1}
		if until > 0 {
			gate.Until = at(until)
		}
		if got := Explain([]Entry{gate, failed(90), failed(150)}, "a", minuteOf(t0)).Causes; len(got) != want {
			t.Errorf("until %d: got the causes %v", until, got)
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
	if got := Explain(all, "cp-2", minuteOf(t0)).Causes; len(got) != 1 || got[0].Kind != Service {
		t.Errorf("got the causes %+v", got)
	}
}

// TestExplain_minute: the answer about a minute has every outage that touches it, wherever in it.
func TestExplain_minute(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	gate := func(from, until int, reason protocol.Reason) Entry {
		return Entry{Kind: Gate, Node: "a", Time: at(from), Until: at(until), Reason: reason, Message: "m", Count: 1}
	}
	all := []Entry{gate(-300, -280, "R0"), gate(-10, 3, "R1"), gate(20, 25, "R2"), gate(58, 90, "R3"), gate(130, 140, "R4")}
	const line = "out of service from 2026-01-01T14:"
	for _, test := range []struct {
		asked Asked
		want  string
	}{
		{minuteOf(t0), "out of service 3 times, 50s in all\n" + line + "01:50Z for 13s: R1: m\n" + line + "02:20Z for 5s: R2: m\n" + line + "02:58Z for 32s: R3: m"},
		{minuteOf(at(60)), line + "02:58Z for 32s: R3: m"},
		{secondOf(at(20)), line + "02:20Z for 5s: R2: m"},
		{secondOf(at(19)), "it was in service, as far as the history shows\nbefore that: " + line + "01:50Z for 13s: R1: m\nafter that: " + line + "02:20Z for 5s: R2: m"},
		{minuteOf(at(-300)), "out of service from 2026-01-01T13:57:00Z for 20s: R0: m"},
		{minuteOf(at(-360)), "nothing is known of this node before 2026-01-01T13:57:00Z, where its history begins\nbefore that: none is known\nafter that: out of service from 2026-01-01T13:57:00Z for 20s: R0: m"},
		{minuteOf(at(-330)), "out of service from 2026-01-01T13:57:00Z for 20s: R0: m; nothing is known before 2026-01-01T13:57:00Z"},
	} {
		if got := Explain(all, "a", test.asked).lines(); got != test.want {
			t.Errorf("%v: got  %q\nwant %q", test.asked, got, test.want)
		}
	}
	var many []Entry
	for i := range maxTold + 5 {
		many = append(many, gate(2*i, 2*i+1, "R"))
	}
	if got := Explain(many, "a", minuteOf(t0)).Outages; len(got) != maxTold+1 || got[maxTold] != "and 5 more: ask for a shorter time" {
		t.Errorf("got %q", got)
	}
}

// TestExplain_likeliest: first what takes a node out of service by its nature and overlaps the outage, then what else its node had,
// then the rest of the fleet.
func TestExplain_likeliest(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	entry := func(kind Kind, node protocol.NodeID, from, until int, reason protocol.Reason) Entry {
		return Entry{Kind: kind, Node: node, Time: at(from), Until: at(until), Reason: reason, Message: string(reason), Count: 1}
	}
	all := []Entry{
		entry(Warning, "b", -600, 60, warn.DiskSlow),
		entry(Warning, "b", -500, 60, warn.EtcdLeaderChanges),
		entry(Service, "a", -20, -20, Restarted),
		entry(Warning, "a", -15, 60, warn.ClocksDiffer),
		entry(Warning, "a", -14, 60, warn.DiskSlow),
		entry(Service, "a", -3, -3, protocol.ServiceFailing),
		entry(Gate, "a", 0, 50, protocol.ServicesNotReady),
		entry(Service, "a", 5, 5, warn.OptionalServiceFailing),
		entry(Turn, "a", 10, 40, warn.TurnUnderWay),
	}
	var got []string
	for _, c := range Explain(all, "a", minuteOf(t0)).Causes {
		got = append(got, string(c.Node)+" "+string(c.Reason))
	}
	want := []string{
		"a DiskSlow", "a ServiceFailing", "a TurnUnderWay", "a ClocksDiffer", "a OptionalServiceFailing", "a Restarted", "b DiskSlow", "b EtcdLeaderChanges",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
