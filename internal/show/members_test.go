package show

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

var observedAt = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestMemberWarnings(t *testing.T) {
	const last = "etcd accepts no writes if another one"
	ok := func(node string) cluster.Observed {
		return cluster.Observed{Member: report.Member{ID: node, Node: node, Healthy: true}}
	}
	down := func(node string) cluster.Observed {
		return cluster.Observed{Member: report.Member{ID: node, Node: node, Address: "10.0.0.9", Problem: "it does not answer", Since: report.At(observedAt)}}
	}
	learner := cluster.Observed{Member: report.Member{Node: "l", Learner: true}}
	for name, tt := range map[string]struct {
		members []cluster.Observed
		want    []string // the subject of each
		noSpare bool
	}{
		"an etcd that runs elsewhere":      {},
		"all healthy":                      {members: []cluster.Observed{ok("a"), ok("b"), ok("c")}},
		"a learner that has not caught up": {members: []cluster.Observed{ok("a"), ok("b"), ok("c"), learner}},
		"one of three":                     {members: []cluster.Observed{ok("a"), down("b"), ok("c")}, noSpare: true, want: []string{"b"}},
		"one of five":                      {members: []cluster.Observed{ok("a"), down("b"), ok("c"), ok("d"), ok("e")}, want: []string{"b"}},
		"two of five":                      {members: []cluster.Observed{down("a"), down("b"), ok("c"), ok("d"), ok("e")}, noSpare: true, want: []string{"a", "b"}},
		"two of three, and this one waits": {members: []cluster.Observed{
			{Member: report.Member{ID: "me", Node: "me", Problem: "it has no leader", Since: report.At(observedAt)}}, down("b"), down("c")}, want: []string{"b", "c"}},
		"two of three": {members: []cluster.Observed{ok("a"), down("b"), down("c")}, want: []string{"b", "c"}},
		"not known":    {members: []cluster.Observed{{Member: report.Member{ID: "1f"}}, ok("b"), ok("c")}, noSpare: true, want: []string{"1f"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := memberFacts{members: tt.members, own: "me"}
			got := facts.warnings(facts.troubles(observedAt), observedAt)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, w := range got {
				if w.Subject != tt.want[i] || w.Reason != warn.MemberDown || strings.Contains(w.Message, last) != tt.noSpare {
					t.Errorf("got %+v, want %q, no spare: %t", w, tt.want[i], tt.noSpare)
				}
				if w.Subject == "b" && !w.Since.Equal(observedAt) {
					t.Errorf("got since %s", w.Since)
				}
			}
		})
	}
}

// A node that is not alive and its etcd member are one problem, and one warning.
func TestMemberWarnings_dead(t *testing.T) {
	roles := protocol.Roles{Controller: true, Consensus: true}
	voter := func(id string, healthy bool) cluster.Observed {
		return cluster.Observed{Member: report.Member{ID: id, Node: id, Address: "10.0.0.9", Healthy: healthy, Problem: map[bool]string{false: "it does not answer"}[healthy]}}
	}
	node := func(id string, alive bool) *protocol.Record {
		return &protocol.Record{ID: protocol.NodeID(id), Alive: alive, Node: protocol.Node{ID: protocol.NodeID(id), Roles: roles}}
	}
	for name, tt := range map[string]struct {
		members []cluster.Observed
		alive   bool // b
		want    map[protocol.Reason]string
	}{
		"one of three": {[]cluster.Observed{voter("a", true), voter("b", false), voter("c", true)}, false,
			map[protocol.Reason]string{warn.NodeDead: "; its etcd member (10.0.0.9): it does not answer" + withoutSpare}},
		"one of five": {[]cluster.Observed{voter("a", true), voter("b", false), voter("c", true), voter("d", true), voter("e", true)}, false,
			map[protocol.Reason]string{warn.NodeDead: "; its etcd member (10.0.0.9): it does not answer"}},
		"its member serves":  {[]cluster.Observed{voter("a", true), voter("b", true), voter("c", true)}, false, map[protocol.Reason]string{warn.NodeDead: "history --node b"}},
		"it is alive":        {[]cluster.Observed{voter("a", true), voter("b", false), voter("c", true)}, true, map[protocol.Reason]string{warn.MemberDown: withoutSpare}},
		"there is no quorum": {[]cluster.Observed{voter("a", true), voter("b", false)}, false, map[protocol.Reason]string{warn.MemberDown: cluster.Restore}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := memberFacts{own: "a", members: tt.members, fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{node("a", true), node("b", tt.alive)}}}
			facts.seen = sightings{}.update(facts.fleet, observedAt)
			got := map[protocol.Reason]string{}
			for _, w := range append(facts.warnings(facts.troubles(observedAt), observedAt), facts.fleetWarningsNow(protocol.StatusView{}, observedAt)...) {
				if w.Subject == "b" && (w.Reason == warn.NodeDead || w.Reason == warn.MemberDown) {
					got[w.Reason] = w.Message
				}
			}
			for reason, text := range got {
				if want, found := tt.want[reason]; !found || !strings.HasSuffix(text, want) || len(got) != 1 {
					t.Errorf("got %s %q", reason, text)
				}
			}
			if len(got) == 0 {
				t.Error("got none")
			}
		})
	}
}

// Without a majority, the first warning is about the voters that are down. That this node's member waits for a leader is
// no other problem.
func TestMemberWarnings_follow(t *testing.T) {
	voter := func(node, problem string) cluster.Observed {
		return cluster.Observed{Member: report.Member{ID: node, Node: node, Healthy: problem == "", Problem: problem}}
	}
	leaderless, down := "it has no leader", "it does not answer"
	own := protocol.Warning{Reason: warn.MemberDown, Message: memberCannotBeUsed + leaderless}
	for name, tt := range map[string]struct {
		members []cluster.Observed
		warning protocol.Warning
		want    bool
	}{
		"two others are down":             {[]cluster.Observed{voter("me", leaderless), voter("b", down), voter("c", down)}, own, true},
		"all wait":                        {[]cluster.Observed{voter("me", leaderless), voter("b", leaderless), voter("c", leaderless)}, own, false},
		"this one is down, too":           {[]cluster.Observed{voter("me", down), voter("b", down), voter("c", leaderless)}, own, false},
		"the others have a leader":        {[]cluster.Observed{voter("me", leaderless), voter("b", ""), voter("c", "")}, own, false},
		"the warning about another voter": {[]cluster.Observed{voter("me", leaderless), voter("b", down), voter("c", down)}, protocol.Warning{Reason: warn.MemberDown, Subject: "b"}, false},
		"its own member is another case":  {[]cluster.Observed{voter("me", ""), voter("b", down), voter("c", down)}, own, false},
		"another warning":                 {[]cluster.Observed{voter("me", leaderless), voter("b", down), voter("c", down)}, protocol.Warning{Reason: warn.DiskSlow}, false},
	} {
		if got := (memberFacts{members: tt.members, own: "me"}).follows(tt.warning); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// Warnings are collected twice a second at most. One about a member that was removed or serves again since then is not shown
// beside the newer list of members.
func TestOfPresentMembers(t *testing.T) {
	members := []cluster.Observed{
		{Member: report.Member{ID: "1", Node: "a", Healthy: true}}, {Member: report.Member{ID: "2", Node: "b"}}, {Member: report.Member{ID: "1f"}},
	}
	warns := func(reason protocol.Reason, subject string) protocol.Warning {
		return protocol.Warning{Reason: reason, Subject: subject}
	}
	kept := []protocol.Warning{
		warns(warn.MemberDown, ""), warns(warn.MemberDown, "b"), warns(warn.MemberDown, "1f"), warns(warn.MemberLeaves, "a"),
		warns(warn.NodeDead, "c"),
	}
	if got := ofPresentMembers(kept, members); !slices.Equal(got, kept) {
		t.Errorf("got %v", got)
	}
	all := append(slices.Clone(kept), warns(warn.MemberDown, "c"), warns(warn.MemberDown, "a"), warns(warn.MemberLeaves, "c"), warns(warn.RemovalInterrupted, "c"))
	before := slices.Clone(all)
	if got := ofPresentMembers(all, members); !slices.Equal(got, kept) || !slices.Equal(all, before) {
		t.Errorf("got %v", got)
	}
}

// A voter that was off when its node lost the role counts until it starts again.
func TestMemberWarnings_leaving(t *testing.T) {
	member := protocol.Node{Roles: protocol.Roles{Consensus: true}}
	facts := memberFacts{
		members: []cluster.Observed{{Member: report.Member{ID: "1", Node: "a"}}, {Member: report.Member{ID: "2", Node: "b"}}, {Member: report.Member{ID: "3", Node: "c"}}, {Member: report.Member{ID: "4", Node: "unknown"}}},
		fleet:   protocol.Fleet{Records: []*protocol.Record{{ID: "a", Node: member}, {ID: "b"}, {ID: "c", Alive: true}}},
	}
	if got := facts.leaving(); len(got) != 1 || got[0].Subject != "b" || got[0].Reason != warn.MemberLeaves {
		t.Errorf("got %+v", got)
	}
}

// A command that removed a voter was interrupted: people read what to type. A learner is removed by the
// sidecar beside etcd's leader, and a node that lost the role removes its member itself.
func TestMemberWarnings_interrupted(t *testing.T) {
	role := protocol.Node{Roles: protocol.Roles{Consensus: true}}
	member := func(node string, learner bool, leaving time.Time) cluster.Observed {
		return cluster.Observed{Member: report.Member{ID: node + "1", Node: node, Learner: learner}, LeavingSince: report.At(leaving)}
	}
	forGood := member("forgood", false, observedAt)
	forGood.ForGood = true
	facts := memberFacts{
		members: []cluster.Observed{
			forGood, member("stays", false, time.Time{}), member("off", false, observedAt), member("alive", false, observedAt),
			member("learner", true, observedAt), member("itself", false, observedAt), member("", false, observedAt),
		},
		fleet: protocol.Fleet{Records: []*protocol.Record{{ID: "alive", Node: role, Alive: true}, {ID: "forgood", Node: role, Alive: true}, {ID: "itself"}, {ID: "off", Node: role}, {ID: "stays", Node: role}}},
	}
	if got := facts.interrupted(observedAt.Add(interruptedAfter - 1)); len(got) != 0 {
		t.Errorf("while it may be under way: got %+v", got)
	}
	if at := facts.nextRemoval(observedAt); !at.Equal(observedAt.Add(interruptedAfter)) {
		t.Errorf("the next change: got %s", at)
	}
	got := map[string]string{}
	for _, w := range facts.interrupted(observedAt.Add(interruptedAfter)) {
		_, typed, _ := strings.Cut(w.Message, "type: ")
		got[w.Subject] = typed
		if w.Reason != warn.RemovalInterrupted || !w.Since.Equal(observedAt) {
			t.Errorf("got %+v", w)
		}
	}
	want := map[string]string{"off": "sidecar cluster remove off", "alive": "sidecar node set-roles alive --remove consensus_member", "1": "sidecar cluster remove 1", "forgood": "sidecar cluster remove forgood --force"}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The message depends on whether the sidecar of the node is alive, and for how long it was
// not. This node's own member is a warning of its own.
func TestMemberWarnings_sidecars(t *testing.T) {
	alive := &protocol.Record{ID: "b", Alive: true, Presence: protocol.Presence{Warnings: []protocol.Warning{
		{Reason: warn.MemberDown, Message: memberCannotBeUsed + "no space left on device"},
	}}}
	gone := &protocol.Record{ID: "b"}
	members := []cluster.Observed{
		{Member: report.Member{ID: "1", Node: "me", Healthy: true}}, {Member: report.Member{ID: "2", Node: "b", Problem: "it does not answer", Since: report.At(observedAt)}}, {Member: report.Member{ID: "3", Node: "c", Healthy: true}},
	}
	facts := memberFacts{members: members, own: "me", seen: sightings{}}
	trouble := func(r *protocol.Record, passed time.Duration) string {
		facts.fleet = protocol.Fleet{Records: []*protocol.Record{r}}
		facts.seen = facts.seen.update(facts.fleet, observedAt)
		return facts.troubles(observedAt.Add(passed))["2"]
	}
	const remove = "sidecar cluster remove b"
	if got := trouble(alive, time.Hour); !strings.Contains(got, "its sidecar runs") || !strings.Contains(got, "no space left on device") || strings.Contains(got, remove) {
		t.Errorf("alive: got %q", got)
	}
	slow := &protocol.Record{ID: "b", Alive: true, Presence: protocol.Presence{Warnings: []protocol.Warning{{Reason: warn.DiskSlow}}}}
	if got := trouble(slow, time.Second); !strings.Contains(got, "it does not answer; its disk was slow before (DiskSlow)") {
		t.Errorf("of a slow disk: got %q", got)
	}
	if got := trouble(gone, time.Second); !strings.Contains(got, "is not alive either") || strings.Contains(got, remove) {
		t.Errorf("not alive: got %q", got)
	}
	if at := facts.nextRemoval(observedAt.Add(time.Second)); !at.Equal(observedAt.Add(protocol.RemoveAfter)) {
		t.Errorf("the next change: got %s", at)
	}
	if got := trouble(gone, protocol.RemoveAfter); !strings.Contains(got, remove) {
		t.Errorf("not alive for long: got %q", got)
	}
	if at := facts.nextRemoval(observedAt.Add(protocol.RemoveAfter)); !at.IsZero() {
		t.Errorf("after that: got %s", at)
	}
	facts.own, facts.problem = "b", "its database is full"
	if got := facts.troubles(observedAt)["2"]; !strings.Contains(got, "its database is full") {
		t.Errorf("its own: got %q", got)
	}
	if got := facts.warnings(facts.troubles(observedAt), observedAt); len(got) != 0 {
		t.Errorf("its own: got %+v", got)
	}
}

// A node that is not alive for a short time may be restarting: people read how to remove it only later, and the age of the
// warning goes on.
func TestMemberFacts_restarts(t *testing.T) {
	alive := &protocol.Record{ID: "b", Alive: true, Node: protocol.Node{ID: "b", Roles: protocol.Roles{Controller: true}}}
	gone := *alive
	gone.Alive = false
	facts := memberFacts{own: "me", fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{&gone}}}
	facts.seen = sightings{}.update(protocol.Fleet{Records: []*protocol.Record{alive}}, observedAt.Add(-time.Hour)).update(facts.fleet, observedAt)
	for passed, removal := range map[time.Duration]bool{0: false, protocol.RemoveAfter - 1: false, protocol.RemoveAfter: true} {
		found := false
		for _, w := range facts.fleetWarningsNow(protocol.StatusView{}, observedAt.Add(passed)) {
			if w.Reason == warn.NodeDead {
				found = true
				if strings.Contains(w.Message, "sidecar node remove b") != removal || !w.Since.Equal(observedAt) {
					t.Errorf("after %s: got %+v", passed, w)
				}
			}
		}
		if got := facts.seen.shown(facts.fleet, observedAt.Add(passed))["b"].MayRestart; !found || got == removal {
			t.Errorf("after %s: found %t, restarts %t", passed, found, got)
		}
	}
	shown := Show{seen: event.New(facts.seen)}
	if got := shown.Missing("b"); !got.Equal(observedAt) {
		t.Errorf("for the leader it is missing since %s", got)
	}
	if shown.seen.Set(sightings{}.update(protocol.Fleet{Records: []*protocol.Record{alive}}, observedAt)); !shown.Missing("b").IsZero() || !shown.Missing("c").IsZero() {
		t.Error("one that is alive or unknown is missing")
	}
	if at := facts.nextRemoval(observedAt); !at.Equal(observedAt.Add(protocol.RemoveAfter)) {
		t.Errorf("the next change: got %s", at)
	}
}

// The wording of a failed probe changes, and the age of the warning goes on.
func TestMemberFacts_notReady(t *testing.T) {
	node := func(message string) protocol.Fleet {
		b := &protocol.Record{ID: "b", Alive: true, Node: protocol.Node{ID: "b", Serves: true, Roles: protocol.Roles{Controller: true}}}
		b.Presence = protocol.Presence{Ready: true, Reason: protocol.Ready, APIServerDown: message != ""}
		if message != "" {
			b.Presence.Warnings = []protocol.Warning{{Reason: protocol.APIServerNotReady, Message: message}}
		}
		return protocol.Fleet{Revision: 1, Records: []*protocol.Record{b}}
	}
	facts := memberFacts{own: "me", seen: sightings{}.update(node(""), observedAt.Add(-time.Hour))}
	for i, message := range []string{"refused", "no answer in 2s"} {
		now := observedAt.Add(time.Duration(i) * time.Minute)
		facts.fleet = node(message)
		facts.seen = facts.seen.update(facts.fleet, now)
		all := facts.fleetWarningsNow(protocol.StatusView{}, now)
		at := slices.IndexFunc(all, func(w protocol.Warning) bool { return w.Reason == protocol.APIServerNotReady })
		if at < 0 || !strings.HasPrefix(all[at].Message, message) || !all[at].Since.Equal(observedAt) {
			t.Errorf("%s: got %+v", message, all)
		}
	}
	now := observedAt.Add(time.Hour)
	if got := facts.seen.servesSince(*node("").Records[0], now); !got.Equal(now) {
		t.Errorf("a state that was not seen yet: got %s", got)
	}
}
