package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// serving is an alive controller that reports its gate.
func (r record) serving() *record {
	r.Presence.Ready, r.Presence.Reason = true, protocol.Ready
	return &r
}

// leading is the same, and leads.
func (r record) leading() *record {
	r = *r.serving()
	r.Presence.Election = protocol.Leading
	return &r
}

// closedBy reports a gate that is closed.
func (r record) closedBy(reason protocol.Reason) *record {
	r.Presence.Ready, r.Presence.Reason = false, reason
	return &r
}

func (r record) warns(reason protocol.Reason) *record {
	r.Presence.Warnings = append(r.Presence.Warnings, protocol.Warning{Reason: reason, Message: "its message"})
	return &r
}

func (r record) ephemeral() *record { r.Node.Ephemeral = true; return &r }
func (r record) member() *record    { r.Node.Roles.Consensus = true; return &r }

// fails is a leader that cannot apply objects.
func (r record) fails(n int) *record {
	r.Presence.Failing = n
	return r.warns(warn.ObjectFailed)
}

func (r record) has(digest string) *record { r.Node.Digest = digest; return &r }

func TestObstacles(t *testing.T) {
	done := presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")})
	working := presentStatus(protocol.Status{State: protocol.Working, Version: ver("1.1.0")})
	a, b, c := controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), controller("c", "1.1.0")
	for _, tc := range []struct {
		name    string
		view    protocol.StatusView
		records []*record
		want    string // reasons and nodes
	}{
		{"all on it", done, []*record{a, b}, ""},
		{"one alone", done, []*record{a}, ""},
		{"one of two is dead", done, []*record{a, b.dead()}, "NodeDead b Outage a"},
		{"one of three is dead", done, []*record{a, b, c.dead()}, "NodeDead c"},
		{"two of three are dead", done, []*record{a, b.dead(), c.dead()}, "NodeDead b NodeDead c Outage a"},
		{"a dead node whose role was taken away, and that may serve", done, []*record{a, b, c.roleTaken().dead()}, "NodeDead c"},
		{"an expired record stays", done, []*record{a, b, c.gone(time.Minute, time.Hour)}, "NodeDead c"},
		{"a dead pod, whose record the leader deletes", done, []*record{a, b, c.ephemeral().gone(time.Minute, 0)}, ""},
		{"a dead pod beside the one that serves", done, []*record{a, c.ephemeral().gone(time.Minute, 0)}, ""},
		{"a dead pod that is a member", done, []*record{a, b, c.ephemeral().member().gone(time.Minute, 0)}, "NodeDead c"},
		{"a kube-apiserver is down", done, []*record{a, b, c.serving().down()}, "APIServerNotReady c"},
		{"a kube-apiserver of two is down", done, []*record{a, b.down()}, "Outage a APIServerNotReady b"},
		{"no kube-apiserver answers", done, []*record{a.down(), b.down()}, "Outage APIServerNotReady a APIServerNotReady b"},
		{"the only kube-apiserver is down", done, []*record{a.down()}, "APIServerNotReady a"},
		{"a node that has withdrawn", done, []*record{a, b, c.serving().withdrawn()}, "NodeWithdrawn c"},
		{"a node that stops has withdrawn too", done, []*record{a, b, c.closedBy(protocol.ShuttingDown).withdrawn()}, "GateClosed c"},
		{"objects fail", done, []*record{a.fails(2), b}, "ObjectFailed a"},
		{"objects failed when another node led", done, []*record{a, b.fails(2)}, ""},
		{"a service is not ready", done, []*record{a, b.warns(protocol.ServiceNotReady)}, "ServiceNotReady b"},
		{"a service that is not needed is not ready", done, []*record{a, b.warns(warn.OptionalServiceFailing)}, ""},
		{"services are rejected", done, []*record{a, b.warns(warn.ServicesRejected)}, "ServicesRejected b"},
		{"another client writes the Service", done, []*record{a, b.warns(protocol.OtherWriter).warns(protocol.ReconcilerRuns)}, "OtherWriter b ReconcilerRuns b"},
		{"a sidecar does not write the Service", done, []*record{a.publishes(), b, c.serving().publishes()}, "NotPublishing b"},
		{"one that does not write it, and does not serve", done, []*record{a.publishes(), b.closedBy(protocol.ReleaseTooOld), c.serving().publishes()}, "GateClosed b"},
		{"a worker does not count", done, []*record{a, controller("w", "1.0.0").worker()}, ""},
		{"a node whose role was just taken away", done, []*record{a, controller("w", "1.0.0").roleTaken()}, "UpgradeUnderWay"},
		{"working", working, []*record{a}, "UpgradeUnderWay"},
		{"one older", done, []*record{a, controller("b", "1.0.0").serving()}, "UpgradeUnderWay"},
		{"one newer", done, []*record{a, controller("b", "1.2.0").serving()}, "UpgradeUnderWay"},
		{"one corrupt", done, []*record{a, controller("b", "1.1.0").corrupt("x")}, "RecordCorrupt b"},
		{"no controller", done, nil, "UpgradeUnderWay NoLeader"},
		{"no status", absentStatus(), []*record{a}, "UpgradeUnderWay"},
		{"a corrupt status", corruptStatus(), []*record{a}, "UpgradeUnderWay"},
		{"a status that was not read", protocol.StatusView{}, []*record{a}, "UpgradeUnderWay"},
		{"no leader", done, []*record{controller("a", "1.1.0").serving()}, "NoLeader"},
		{"the leader is not alive", done, []*record{a.dead(), b, c.serving()}, "NoLeader NodeDead a"},
		{"a worker leads", done, []*record{controller("a", "1.1.0").serving(), controller("w", "1.1.0").leading().worker()}, "NoLeader"},
		{"an alive node without a gate", done, []*record{a, b, c}, "NoGate c"},
		{"a closed gate", done, []*record{a, b, c.closedBy(protocol.ServicesNotReady)}, "GateClosed c"},
		{"a closed gate of two", done, []*record{a, b.closedBy(protocol.ServicesNotReady)}, "Outage a GateClosed b"},
		{"a gate that is about to open", done, []*record{a, b, c.closedBy(protocol.ReconcilerTooOld)}, "GateClosed c"},
		{"a node with another bundle", presentStatus(ofBundle(done.Status, "acme")),
			[]*record{a.runs("acme", ""), controller("b", "1.1.0").serving().runs("base", ""), controller("c", "1.1.0").serving()}, "OtherBundle b"},
		{"the only gate", done, []*record{controller("a", "1.1.0").leading().closedBy(protocol.Fenced)}, "GateClosed a"},
		{"an upgraded node that waits for the others", done, []*record{a, controller("b", "1.2.0").closedBy(protocol.ReconcilerTooOld)}, "UpgradeUnderWay"},
		{"a node that is left behind", done, []*record{a, controller("b", "1.0.0").closedBy(protocol.ReleaseTooOld)}, "UpgradeUnderWay"},
		{"the first reconciliation", absentStatus(), []*record{a.closedBy(protocol.StatusMissing)}, "UpgradeUnderWay"},
		{"a corrupt status and a closed gate", corruptStatus(), []*record{a, controller("b", "1.1.0").closedBy(protocol.StatusCorrupt)}, "UpgradeUnderWay"},
		{"an upgraded node with a service that fails", done, []*record{a, controller("b", "1.2.0").closedBy(protocol.ServicesNotReady)},
			"UpgradeUnderWay Outage a GateClosed b"},
		{"a node that stops in an upgrade", working, []*record{a, controller("b", "1.1.0").closedBy(protocol.ShuttingDown)}, "UpgradeUnderWay Outage a GateClosed b"},
		{"a cordon closes the gate", done, []*record{a, b, c.closedBy(protocol.Cordoned).cordoned()}, "Cordoned c"},
		{"an override opens a gate", done, []*record{a, controller("b", "1.1.0").serving().warns(protocol.Overridden)}, "Overridden b"},
		{"a closed gate of a node that is not alive", done, []*record{a, b, c.closedBy(protocol.Fenced).dead()}, "NodeDead c"},
		{"a closed gate of a worker", done, []*record{a, controller("w", "1.1.0").closedBy(protocol.NotController).worker()}, ""},
		{"different bundles", done, []*record{a.has("x"), controller("b", "1.1.0").serving().has("y")}, "BundlesDiffer"},
		{"different bundles, of other names", presentStatus(ofBundle(done.Status, "acme")),
			[]*record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("acme", "x")}, "OtherBundle b"},
		{"different bundles, two of them of the objects' name", presentStatus(ofBundle(done.Status, "acme")),
			[]*record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("acme", "z")}, "OtherBundle b BundlesDiffer"},
		{"different bundles that wait for a replacement", presentStatus(ofBundle(done.Status, "acme")),
			[]*record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("base", "z")},
			"OtherBundle b OtherBundle c BundlesDiffer"},
		{"a rejected bundle", done, []*record{a, controller("b", "1.1.0").serving().warns(warn.BundleRejected)}, "BundleRejected b"},
		{"a service fails", done, []*record{a, controller("b", "1.1.0").serving().warns(protocol.ServiceFailing)}, "ServiceFailing b"},
		{"removals are held", done, []*record{a.warns(warn.RemovalsHeld)}, "RemovalsHeld a"},
		{"removals were held when another node led", done, []*record{a, controller("b", "1.1.0").serving().warns(warn.RemovalsHeld)}, ""},
		{"a fight, and an object that is not required, hold nothing", done, []*record{a.warns(warn.Fight).warns(warn.ObjectFailed).warns("")}, ""},
		{"a dead node's warnings do not count", done, []*record{a, b, c.warns(warn.BundleRejected).dead()}, "NodeDead c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, o := range obstacles(tc.view, protocol.Fleet{Records: of(tc.records...)}) {
				got = append(got, strings.TrimSpace(fmt.Sprint(o.Reason, " ", o.Subject)))
				if o.Message == "" {
					t.Errorf("%s has no message", o.Reason)
				}
				if !slices.Contains(Reasons(), o.Reason) {
					t.Errorf("%s is not in Reasons", o.Reason)
				}
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
			if ready := Judge(Facts{Status: tc.view, Fleet: protocol.Fleet{Records: of(tc.records...)}}).Ready(); ready != (tc.want == "") {
				t.Errorf("got ready %t", ready)
			}
		})
	}
}

// Whatever closed it: while the gate of a controller that is alive is closed, something
// holds the next upgrade.
func TestJudge_allGatesOpen(t *testing.T) {
	for _, view := range []protocol.StatusView{
		{}, absentStatus(), corruptStatus(), presentStatus(protocol.Status{State: protocol.Working, Version: ver("1.1.0")}), presentStatus(doneStatus("1.1.0")),
	} {
		for _, reason := range append(protocol.Reasons(), "") {
			if reason == protocol.Ready || reason == protocol.Overridden {
				continue
			}
			for _, release := range []string{"1.0.0", "1.1.0", "1.2.0"} {
				b := controller("b", release).closedBy(reason)
				for _, b := range []*record{b, b.cordoned()} {
					if len(obstacles(view, protocol.Fleet{Records: of(controller("a", "1.1.0").leading(), b)})) == 0 {
						t.Errorf("%v, b closed by %q at %s: got ready", view, reason, release)
					}
				}
			}
		}
	}
}

func TestSettled(t *testing.T) {
	done := presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")})
	for _, tc := range []struct {
		name    string
		records []*record
		want    bool
	}{
		{"no leader", []*record{controller("a", "1.1.0")}, true},
		{"one older", []*record{controller("a", "1.1.0"), controller("b", "1.0.0")}, false},
		{"one corrupt", []*record{controller("a", "1.1.0"), controller("b", "1.1.0").corrupt("x")}, false},
	} {
		if got := Settled(done, protocol.Fleet{Records: of(tc.records...)}); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

// The remedy of an upgrade in progress is to upgrade the old node, except where the
// leader waits for that node and is not ready itself: then that would be an outage.
func TestObstacles_remedy(t *testing.T) {
	leads := controller("a", "1.1.0").leading()
	waiting := leads.warns(protocol.ReleaseTooOld)
	deadlocked := waiting.closedBy(protocol.ReconcilerTooOld)
	old := controller("b", "1.0.0").serving()
	const under = "an upgrade is in progress: b runs release 1.0.0, a runs 1.1.0; "
	for _, tc := range []struct {
		name    string
		records []*record
		want    string
	}{
		{"the leader has nothing to wait for", []*record{leads, old}, "upgrade b"},
		{"the leader waits, and serves", []*record{waiting, old}, "upgrade b"},
		{"the leader waits, and does not serve", []*record{deadlocked, old}, "they wait for each other: roll a back to 1.0.0"},
		{"the leader of a deadlock is not alive", []*record{deadlocked.dead(), old}, "upgrade b when a works again"},
		{"the old node is not alive", []*record{deadlocked, old.dead()}, "b is not alive: upgrade it, or if it has stopped for good: sidecar node remove b --confirm-stopped"},
	} {
		got := obstacles(presentStatus(doneStatus("1.0.0")), protocol.Fleet{Records: of(tc.records...)})
		if len(got) == 0 || got[0].Message != under+tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, got, under+tc.want)
		}
	}
}

// All nodes that are old are named, and a node that was just rolled back is not
// advised to go forward as if that were the only way.
func TestObstacles_names(t *testing.T) {
	at := func(r *record, revision int64) *record { r.Revision = revision; return r }
	for _, tc := range []struct {
		name    string
		records []*record
		want    string
	}{
		{"two of three are old", []*record{at(controller("a", "1.1.0").leading(), 9), controller("b", "1.0.0").serving(), controller("c", "1.0.0").serving()},
			"an upgrade is in progress: b, c run release 1.0.0, a runs 1.1.0; upgrade b, c"},
		{"three releases", []*record{at(controller("a", "1.2.0").leading(), 9), controller("b", "1.1.0").serving(), controller("c", "1.0.0").serving()},
			"an upgrade is in progress: c runs release 1.0.0, b runs 1.1.0, a runs 1.2.0; upgrade c, b"},
		{"one was rolled back", []*record{controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), at(controller("c", "1.0.0").serving(), 9)},
			"the nodes run different releases: c runs release 1.0.0, a, b run 1.1.0; to go on: upgrade c; to go back: roll a, b back"},
		{"one old node is dead", []*record{at(controller("a", "1.1.0").leading(), 9), controller("b", "1.0.0").serving(), controller("c", "1.0.0").dead()},
			"an upgrade is in progress: b, c run release 1.0.0, a runs 1.1.0; upgrade b; c is not alive: upgrade it, or if it has stopped for good: sidecar node remove c --confirm-stopped"},
		{"the new one cannot work", []*record{at(controller("a", "1.1.0").serving().withdrawn(), 9), controller("b", "1.0.0").leading()},
			"an upgrade is in progress: b runs release 1.0.0, a runs 1.1.0; upgrade b when a works again"},
		{"the new ones do not serve", []*record{at(controller("a", "1.1.0").dead(), 9), at(controller("c", "1.1.0").closedBy(protocol.Starting), 9), controller("b", "1.0.0").leading()},
			"an upgrade is in progress: b runs release 1.0.0, a, c run 1.1.0; upgrade b when a, c work again"},
		{"the new one waits for the status", []*record{at(controller("a", "1.1.0").closedBy(protocol.ReconcilerTooOld), 9), controller("b", "1.0.0").leading()},
			"an upgrade is in progress: b runs release 1.0.0, a runs 1.1.0; upgrade b"},
		{"the new one is out of service", []*record{at(controller("a", "1.1.0").closedBy(protocol.Cordoned).cordoned(), 9), controller("b", "1.0.0").leading()},
			"an upgrade is in progress: b runs release 1.0.0, a runs 1.1.0; upgrade b"},
	} {
		if got := obstacles(presentStatus(doneStatus("1.0.0")), protocol.Fleet{Records: of(tc.records...)})[0].Message; got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// While a rollback is under way, no advice leads the other way.
func TestObstacles_rollback(t *testing.T) {
	f := protocol.Fleet{Rollback: protocol.Rollback{To: rel("1.0.0"), Revision: 9}, Records: of(
		controller("a", "1.0.0").leading(), controller("b", "1.1.0").serving(), controller("c", "1.1.0").serving(),
	)}
	const want = "the nodes run different releases: a runs release 1.0.0, b, c run 1.1.0; roll b, c back, too"
	all := obstacles(presentStatus(doneStatus("1.0.0")), f)
	if !slices.ContainsFunc(all, func(o protocol.Warning) bool { return o.Message == want }) {
		t.Errorf("got %+v, want %q", all, want)
	}
}

// Planned work on a node keeps the next upgrade from starting, and its cordon is not an obstacle of its own.
func TestObstacles_turn(t *testing.T) {
	worked := controller("c", "1.1.0").closedBy(protocol.Cordoned).cordoned()
	worked.Node.Cordon.Turn = true
	f := protocol.Fleet{Turns: protocol.Turns{Held: []protocol.Turn{{Node: "c", Since: time.Unix(0, 0)}}}, Records: of(
		controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), worked,
	)}
	all := Judge(Facts{Status: presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")}), Fleet: f})
	if len(all.Obstacles) != 1 || all.Obstacles[0].Reason != warn.TurnUnderWay || all.Obstacles[0].Subject != "c" || all.Ready() {
		t.Errorf("got ready %t and %+v, want TurnUnderWay c alone", all.Ready(), all.Obstacles)
	}
	f.Turns.Held = []protocol.Turn{{Node: "gone", Kind: protocol.TurnOfCommand, Work: protocol.TurnWorkFailed, Problem: "exit status 1"}}
	for _, part := range []string{"its work has failed: exit status 1", "sidecar turn end gone --force"} {
		if o := turnObstacles(f); len(o) != 1 || !strings.Contains(o[0].Message, part) {
			t.Errorf("got %+v, want %q in it", o, part)
		}
	}
}

// A node that runs another bundle, maybe by mistake, is no reason to upgrade or roll back
// the others. It is named before the releases, which differ because of it.
func TestObstacles_anotherBundle(t *testing.T) {
	v := presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0"), Bundle: "acme"})
	at := func(r *record, revision int64) *record { r.Revision = revision; return r.runs("acme", "") }
	b, c := at(controller("b", "1.1.0").serving(), 1), at(controller("c", "1.1.0").serving(), 2)
	for _, tc := range []struct {
		name string
		a    *record
		want string
	}{
		{"of a newer release", at(controller("a", "1.2.0").leading(), 9).runs("base", ""), "the nodes run different releases: b, c run release 1.1.0, a runs 1.2.0; " +
			"upgrade no other node yet: a runs another bundle than that of the objects (OtherBundle), which has to be settled first"},
		{"of an older release", at(controller("a", "0.1.0").serving(), 9).runs("base", ""), "no node leads"},
		{"beside one that is to be upgraded", at(controller("a", "0.1.0").serving(), 1).runs("base", ""),
			"an upgrade is in progress: c runs release 1.1.0, b runs 1.2.0; upgrade c"},
		{"none", at(controller("a", "1.2.0").leading(), 9), "an upgrade is in progress: b, c run release 1.1.0, a runs 1.2.0; upgrade b, c"},
	} {
		b := b
		if strings.HasPrefix(tc.name, "beside") {
			b = at(controller("b", "1.2.0").leading(), 9)
		}
		all := obstacles(v, protocol.Fleet{Records: of(tc.a, b, c)})
		if tc.name != "none" {
			if all[0].Reason != warn.OtherBundle || all[0].Subject != "a" {
				t.Errorf("%s: it begins with %+v", tc.name, all[0])
			}
			all = all[1:]
		}
		if got := all[0].Message; got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestObstacles_objects(t *testing.T) {
	leader := controller("a", "1.1.0").leading()
	named := func(n int, objects ...string) *record {
		out := leader
		for _, o := range objects {
			out = out.warns(warn.ObjectFailed)
			out.Presence.Warnings[len(out.Presence.Warnings)-1].Subject = o
		}
		out.Presence.Failing = n
		return out
	}
	for want, r := range map[string]*record{
		`1 object fails: Role "x" (see FAILURES on a)`:                      named(1, `Role "x"`, `Role "y"`),
		`6 objects fail: Role "x", Role "y" and 4 more (see FAILURES on a)`: named(6, `Role "x"`, `Role "y"`),
		`2 objects fail (see FAILURES on a)`:                                named(2),
	} {
		if got := obstacles(presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")}), protocol.Fleet{Records: of(r)}); len(got) != 1 || got[0].Message != want {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}

// A node that has stopped for good leaves with its member of etcd: that comes first.
func TestObstacles_deadVoter(t *testing.T) {
	f := protocol.Fleet{Revision: 1, Records: of(controller("a", "1.0.0").leading(), controller("b", "1.0.0").serving(), controller("c", "1.0.0").dead())}
	done := presentStatus(doneStatus("1.0.0"))
	const both = "it is not alive; start it again, or if it has stopped for good: sidecar cluster remove c; then: sidecar node remove c --confirm-stopped"
	for _, tt := range []struct {
		voters []protocol.Voter
		want   string
	}{
		{[]protocol.Voter{{Name: "a", Healthy: true}, {Name: "c"}}, both},
		{[]protocol.Voter{{Name: "a", Healthy: true}}, strings.Replace(both, "sidecar cluster remove c; then: ", "", 1)},
		{nil, strings.Replace(both, "sidecar cluster remove c; then: ", "", 1)},
	} {
		answer := Judge(Facts{Status: done, Fleet: f, Voters: tt.voters})
		warned := Warnings(Facts{Status: done, Fleet: f, Voters: tt.voters}, "a")
		if answer.Obstacles[0].Message != tt.want || len(warned) != 1 || warned[0].Message != tt.want {
			t.Errorf("%v: got %v and %v, want %s", tt.voters, answer.Obstacles, warned, tt.want)
		}
		if f.Records[2].Votes {
			t.Error("the fleet itself was changed")
		}
		// In the middle of an upgrade, two messages name the departure: they name the same one.
		mixed := protocol.Fleet{Revision: 1, Records: append(of(controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving()), f.Records[2])}
		_, departure, _ := strings.Cut(tt.want, "for good: ")
		count := 0
		for _, o := range Judge(Facts{Status: done, Fleet: mixed, Voters: tt.voters}).Obstacles {
			if strings.HasSuffix(o.Message, "if it has stopped for good: "+departure) {
				count++
			}
		}
		if count != 2 {
			t.Errorf("%v: %d messages say %s", tt.voters, count, departure)
		}
	}
}

// A node that may be restarting is not to be removed. The fleet itself stays as it is.
func TestObstacles_restarts(t *testing.T) {
	old := controller("c", "1.0.0").dead()
	f := protocol.Fleet{Revision: 1, Records: of(controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), old)}
	for _, restarts := range []bool{true, false} {
		var text []string
		for _, o := range obstacles(presentStatus(doneStatus("1.0.0")), protocol.WithMayRestart(f, func(id protocol.NodeID) bool { return restarts && id != "b" })) {
			text = append(text, o.Message)
		}
		got := strings.Join(text, "|")
		if strings.Contains(got, "sidecar node remove") == restarts || strings.Count(got, "unless it is restarting") == 2 != restarts {
			t.Errorf("restarts: %t: got %s", restarts, got)
		}
	}
	if old.MayRestart {
		t.Error("the fleet itself was changed")
	}
}

func TestObstacles_cordoned(t *testing.T) {
	f := protocol.Fleet{Records: of(controller("me", "1.0.0").serving().cordoned())}
	for _, o := range obstacles(presentStatus(doneStatus("1.0.0")), f) {
		if o.Reason == protocol.Cordoned && o.Subject == "me" && strings.Contains(o.Message, "sidecar uncordon me") {
			return
		}
	}
	t.Error("a node that an operator works on does not hold the next upgrade")
}
