package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// serving is an alive controller that reports its gate.
func (r Record) serving() *Record { r.Presence.Ready, r.Presence.Reason = true, Ready; return &r }

// leading is the same, and leads.
func (r Record) leading() *Record { r = *r.serving(); r.Presence.Election = Leading; return &r }

// closedBy reports a gate that is closed.
func (r Record) closedBy(reason Reason) *Record {
	r.Presence.Ready, r.Presence.Reason = false, reason
	return &r
}

func (r Record) warns(reason Reason) *Record {
	r.Presence.Warnings = append(r.Presence.Warnings, Warning{Reason: reason, Message: "its message"})
	return &r
}

func (r Record) ephemeral() *Record { r.Node.Ephemeral = true; return &r }
func (r Record) member() *Record    { r.Node.Roles.Consensus = true; return &r }

// fails is a leader that cannot apply objects.
func (r Record) fails(n int) *Record {
	r.Presence.Failing = n
	return r.warns(ObjectFailed)
}

func (r Record) has(digest string) *Record { r.Node.Digest = digest; return &r }

func TestUpgradeObstacles(t *testing.T) {
	done := presentStatus(Status{State: Done, Version: ver("1.1.0")})
	working := presentStatus(Status{State: Working, Version: ver("1.1.0")})
	a, b, c := controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), controller("c", "1.1.0")
	for _, tc := range []struct {
		name    string
		view    StatusView
		records []*Record
		want    string // reasons and nodes
	}{
		{"all on it", done, []*Record{a, b}, ""},
		{"one alone", done, []*Record{a}, ""},
		{"one of two is dead", done, []*Record{a, b.dead()}, "NodeDead b Outage a"},
		{"one of three is dead", done, []*Record{a, b, c.dead()}, "NodeDead c"},
		{"two of three are dead", done, []*Record{a, b.dead(), c.dead()}, "NodeDead b NodeDead c Outage a"},
		{"a dead node whose role was taken away, and that may serve", done, []*Record{a, b, c.roleTaken().dead()}, "NodeDead c"},
		{"an expired record stays", done, []*Record{a, b, c.gone(time.Minute, time.Hour)}, "NodeDead c"},
		{"a dead pod, whose record the leader deletes", done, []*Record{a, b, c.ephemeral().gone(time.Minute, 0)}, ""},
		{"a dead pod beside the one that serves", done, []*Record{a, c.ephemeral().gone(time.Minute, 0)}, ""},
		{"a dead pod that is a member", done, []*Record{a, b, c.ephemeral().member().gone(time.Minute, 0)}, "NodeDead c"},
		{"a kube-apiserver is down", done, []*Record{a, b, c.serving().down()}, "APIServerNotReady c"},
		{"a kube-apiserver of two is down", done, []*Record{a, b.down()}, "Outage a APIServerNotReady b"},
		{"no kube-apiserver answers", done, []*Record{a.down(), b.down()}, "Outage APIServerNotReady a APIServerNotReady b"},
		{"the only kube-apiserver is down", done, []*Record{a.down()}, "APIServerNotReady a"},
		{"a node that has withdrawn", done, []*Record{a, b, c.serving().withdrawn()}, "NodeWithdrawn c"},
		{"a node that stops has withdrawn too", done, []*Record{a, b, c.closedBy(ShuttingDown).withdrawn()}, "GateClosed c"},
		{"objects fail", done, []*Record{a.fails(2), b}, "ObjectFailed a"},
		{"objects failed when another node led", done, []*Record{a, b.fails(2)}, ""},
		{"a service is not ready", done, []*Record{a, b.warns(ServiceNotReady)}, "ServiceNotReady b"},
		{"a service that is not needed is not ready", done, []*Record{a, b.warns(OptionalServiceFailing)}, ""},
		{"services are rejected", done, []*Record{a, b.warns(ServicesRejected)}, "ServicesRejected b"},
		{"another client writes the Service", done, []*Record{a, b.warns(OtherWriter).warns(ReconcilerRuns)}, "OtherWriter b ReconcilerRuns b"},
		{"a worker does not count", done, []*Record{a, controller("w", "1.0.0").worker()}, ""},
		{"a node whose role was just taken away", done, []*Record{a, controller("w", "1.0.0").roleTaken()}, "UpgradeUnderWay"},
		{"working", working, []*Record{a}, "UpgradeUnderWay"},
		{"one older", done, []*Record{a, controller("b", "1.0.0").serving()}, "UpgradeUnderWay"},
		{"one newer", done, []*Record{a, controller("b", "1.2.0").serving()}, "UpgradeUnderWay"},
		{"one corrupt", done, []*Record{a, controller("b", "1.1.0").corrupt("x")}, "RecordCorrupt b"},
		{"no controller", done, nil, "UpgradeUnderWay NoLeader"},
		{"no status", absentStatus(), []*Record{a}, "UpgradeUnderWay"},
		{"a corrupt status", corruptStatus(), []*Record{a}, "UpgradeUnderWay"},
		{"a status that was not read", StatusView{}, []*Record{a}, "UpgradeUnderWay"},
		{"no leader", done, []*Record{controller("a", "1.1.0").serving()}, "NoLeader"},
		{"the leader is not alive", done, []*Record{a.dead(), b, c.serving()}, "NoLeader NodeDead a"},
		{"a worker leads", done, []*Record{controller("a", "1.1.0").serving(), controller("w", "1.1.0").leading().worker()}, "NoLeader"},
		{"an alive node without a gate", done, []*Record{a, b, c}, "NoGate c"},
		{"a closed gate", done, []*Record{a, b, c.closedBy(ServicesNotReady)}, "GateClosed c"},
		{"a closed gate of two", done, []*Record{a, b.closedBy(ServicesNotReady)}, "Outage a GateClosed b"},
		{"a gate that is about to open", done, []*Record{a, b, c.closedBy(ReconcilerTooOld)}, "GateClosed c"},
		{"a node with another bundle", presentStatus(done.Status.of("acme")),
			[]*Record{a.runs("acme", ""), controller("b", "1.1.0").serving().runs("base", ""), controller("c", "1.1.0").serving()}, "OtherBundle b"},
		{"the only gate", done, []*Record{controller("a", "1.1.0").leading().closedBy(Fenced)}, "GateClosed a"},
		{"an upgraded node that waits for the others", done, []*Record{a, controller("b", "1.2.0").closedBy(ReconcilerTooOld)}, "UpgradeUnderWay"},
		{"a node that is left behind", done, []*Record{a, controller("b", "1.0.0").closedBy(ReleaseTooOld)}, "UpgradeUnderWay"},
		{"the first reconciliation", absentStatus(), []*Record{a.closedBy(StatusMissing)}, "UpgradeUnderWay"},
		{"a corrupt status and a closed gate", corruptStatus(), []*Record{a, controller("b", "1.1.0").closedBy(StatusCorrupt)}, "UpgradeUnderWay"},
		{"an upgraded node with a service that fails", done, []*Record{a, controller("b", "1.2.0").closedBy(ServicesNotReady)},
			"UpgradeUnderWay Outage a GateClosed b"},
		{"a node that stops in an upgrade", working, []*Record{a, controller("b", "1.1.0").closedBy(ShuttingDown)}, "UpgradeUnderWay Outage a GateClosed b"},
		{"a cordon closes the gate", done, []*Record{a, b, c.closedBy(Cordoned).cordoned()}, "Cordoned c"},
		{"an override opens a gate", done, []*Record{a, controller("b", "1.1.0").ready().warns(Overridden)}, "Overridden b"},
		{"a closed gate of a node that is not alive", done, []*Record{a, b, c.closedBy(Fenced).dead()}, "NodeDead c"},
		{"a closed gate of a worker", done, []*Record{a, controller("w", "1.1.0").closedBy(NotController).worker()}, ""},
		{"different bundles", done, []*Record{a.has("x"), controller("b", "1.1.0").serving().has("y")}, "BundlesDiffer"},
		{"different bundles, of other names", presentStatus(done.Status.of("acme")),
			[]*Record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("acme", "x")}, "OtherBundle b"},
		{"different bundles, two of them of the objects' name", presentStatus(done.Status.of("acme")),
			[]*Record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("acme", "z")}, "OtherBundle b BundlesDiffer"},
		{"different bundles that wait for a replacement", presentStatus(done.Status.of("acme")),
			[]*Record{a.runs("acme", "x"), controller("b", "1.1.0").serving().runs("base", "y"), controller("c", "1.1.0").serving().runs("base", "z")},
			"OtherBundle b OtherBundle c BundlesDiffer"},
		{"a rejected bundle", done, []*Record{a, controller("b", "1.1.0").serving().warns(BundleRejected)}, "BundleRejected b"},
		{"a service fails", done, []*Record{a, controller("b", "1.1.0").serving().warns(ServiceFailing)}, "ServiceFailing b"},
		{"removals are held", done, []*Record{a.warns(RemovalsHeld)}, "RemovalsHeld a"},
		{"removals were held when another node led", done, []*Record{a, controller("b", "1.1.0").serving().warns(RemovalsHeld)}, ""},
		{"a fight, and an object that is not required, hold nothing", done, []*Record{a.warns(Fight).warns(ObjectFailed).warns("")}, ""},
		{"a dead node's warnings do not count", done, []*Record{a, b, c.warns(BundleRejected).dead()}, "NodeDead c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, o := range upgradeObstacles(tc.view, Fleet{Records: tc.records}) {
				got = append(got, strings.TrimSpace(fmt.Sprint(o.Reason, " ", o.Subject)))
				if o.Message == "" {
					t.Errorf("%s has no message", o.Reason)
				}
				if !slices.Contains(ObstacleReasons(), o.Reason) {
					t.Errorf("%s is not in ObstacleReasons", o.Reason)
				}
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
			if ready := JudgeUpgrade(UpgradeFacts{Status: tc.view, Fleet: Fleet{Records: tc.records}}).Ready(); ready != (tc.want == "") {
				t.Errorf("got ready %t", ready)
			}
		})
	}
}

// Whatever closed it: while the gate of a controller that is alive is closed, something
// holds the next upgrade.
func TestUpgradeReady_allGatesOpen(t *testing.T) {
	for _, view := range []StatusView{
		{}, absentStatus(), corruptStatus(), presentStatus(Status{State: Working, Version: ver("1.1.0")}), presentStatus(doneStatus("1.1.0")),
	} {
		for _, reason := range append(Reasons(), "") {
			if reason == Ready || reason == Overridden {
				continue
			}
			for _, release := range []string{"1.0.0", "1.1.0", "1.2.0"} {
				b := controller("b", release).closedBy(reason)
				for _, b := range []*Record{b, b.cordoned()} {
					if len(upgradeObstacles(view, Fleet{Records: []*Record{controller("a", "1.1.0").leading(), b}})) == 0 {
						t.Errorf("%v, b closed by %q at %s: got ready", view, reason, release)
					}
				}
			}
		}
	}
}

func TestSettled(t *testing.T) {
	done := presentStatus(Status{State: Done, Version: ver("1.1.0")})
	for _, tc := range []struct {
		name    string
		records []*Record
		want    bool
	}{
		{"no leader", []*Record{controller("a", "1.1.0")}, true},
		{"one older", []*Record{controller("a", "1.1.0"), controller("b", "1.0.0")}, false},
		{"one corrupt", []*Record{controller("a", "1.1.0"), controller("b", "1.1.0").corrupt("x")}, false},
	} {
		if got := Settled(done, Fleet{Records: tc.records}); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

// The remedy of an upgrade in progress is to upgrade the old node, except where the
// leader waits for that node and is not ready itself: then that would be an outage.
func TestUpgradeObstacles_remedy(t *testing.T) {
	leads := controller("a", "1.1.0").leading()
	waiting := leads.warns(ReleaseTooOld)
	deadlocked := waiting.closedBy(ReconcilerTooOld)
	old := controller("b", "1.0.0").serving()
	const under = "an upgrade is in progress: b runs release 1.0.0, a runs 1.1.0; "
	for _, tc := range []struct {
		name    string
		records []*Record
		want    string
	}{
		{"the leader has nothing to wait for", []*Record{leads, old}, "upgrade b"},
		{"the leader waits, and serves", []*Record{waiting, old}, "upgrade b"},
		{"the leader waits, and does not serve", []*Record{deadlocked, old}, "they wait for each other: roll a back to 1.0.0"},
		{"the leader of a deadlock is not alive", []*Record{deadlocked.dead(), old}, "upgrade b"},
		{"the old node is not alive", []*Record{deadlocked, old.dead()}, "b is not alive: upgrade it, or if it has stopped for good: sidecar node remove b --confirm-stopped"},
	} {
		got := upgradeObstacles(presentStatus(doneStatus("1.0.0")), Fleet{Records: tc.records})
		if len(got) == 0 || got[0].Message != under+tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, got, under+tc.want)
		}
	}
}

// All nodes that are old are named, and a node that was just rolled back is not
// advised to go forward as if that were the only way.
func TestUpgradeObstacles_names(t *testing.T) {
	at := func(r *Record, revision int64) *Record { r.Revision = revision; return r }
	for _, tc := range []struct {
		name    string
		records []*Record
		want    string
	}{
		{"two of three are old", []*Record{at(controller("a", "1.1.0").leading(), 9), controller("b", "1.0.0").serving(), controller("c", "1.0.0").serving()},
			"an upgrade is in progress: b, c run release 1.0.0, a runs 1.1.0; upgrade b, c"},
		{"three releases", []*Record{at(controller("a", "1.2.0").leading(), 9), controller("b", "1.1.0").serving(), controller("c", "1.0.0").serving()},
			"an upgrade is in progress: c runs release 1.0.0, b runs 1.1.0, a runs 1.2.0; upgrade c, b"},
		{"one was rolled back", []*Record{controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), at(controller("c", "1.0.0").serving(), 9)},
			"the nodes run different releases: c runs release 1.0.0, a, b run 1.1.0; to go on: upgrade c; to go back: roll a, b back"},
		{"one old node is dead", []*Record{at(controller("a", "1.1.0").leading(), 9), controller("b", "1.0.0").serving(), controller("c", "1.0.0").dead()},
			"an upgrade is in progress: b, c run release 1.0.0, a runs 1.1.0; upgrade b; c is not alive: upgrade it, or if it has stopped for good: sidecar node remove c --confirm-stopped"},
	} {
		if got := upgradeObstacles(presentStatus(doneStatus("1.0.0")), Fleet{Records: tc.records})[0].Message; got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// While a rollback is under way, no advice leads the other way.
func TestUpgradeObstacles_rollback(t *testing.T) {
	f := Fleet{Rollback: Rollback{To: rel("1.0.0"), Revision: 9}, Records: []*Record{
		controller("a", "1.0.0").leading(), controller("b", "1.1.0").serving(), controller("c", "1.1.0").serving(),
	}}
	const want = "the nodes run different releases: a runs release 1.0.0, b, c run 1.1.0; roll b, c back, too"
	all := upgradeObstacles(presentStatus(doneStatus("1.0.0")), f)
	if !slices.ContainsFunc(all, func(o Warning) bool { return o.Message == want }) {
		t.Errorf("got %+v, want %q", all, want)
	}
}

// Planned work on a node keeps the next upgrade from starting, and its cordon is not an obstacle of its own.
func TestUpgradeObstacles_turn(t *testing.T) {
	worked := controller("c", "1.1.0").closedBy(Cordoned).cordoned()
	worked.Node.Cordon.Turn = true
	f := Fleet{Turns: Turns{Held: []Turn{{Node: "c", Since: time.Unix(0, 0)}}}, Records: []*Record{
		controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), worked,
	}}
	all := JudgeUpgrade(UpgradeFacts{Status: presentStatus(Status{State: Done, Version: ver("1.1.0")}), Fleet: f})
	if len(all.Obstacles) != 1 || all.Obstacles[0].Reason != TurnUnderWay || all.Obstacles[0].Subject != "c" || all.Ready() {
		t.Errorf("got ready %t and %+v, want TurnUnderWay c alone", all.Ready(), all.Obstacles)
	}
}

// A node that runs another bundle, maybe by mistake, is no reason to upgrade or roll back
// the others. It is named before the releases, which differ because of it.
func TestUpgradeObstacles_anotherBundle(t *testing.T) {
	v := presentStatus(Status{State: Done, Version: ver("1.1.0"), Bundle: "acme"})
	at := func(r *Record, revision int64) *Record { r.Revision = revision; return r.runs("acme", "") }
	b, c := at(controller("b", "1.1.0").serving(), 1), at(controller("c", "1.1.0").serving(), 2)
	for _, tc := range []struct {
		name string
		a    *Record
		want string
	}{
		{"of a newer release", at(controller("a", "1.2.0").leading(), 9).runs("base", ""), "the nodes run different releases: b, c run release 1.1.0, a runs 1.2.0; " +
			"upgrade no other node yet: a runs another bundle than that of the objects (OtherBundle), which has to be settled first"},
		{"of an older release", at(controller("a", "0.1.0").serving(), 9).runs("base", ""), "an upgrade is in progress: a runs release 0.1.0, b, c run 1.1.0; upgrade a"},
		{"none", at(controller("a", "1.2.0").leading(), 9), "an upgrade is in progress: b, c run release 1.1.0, a runs 1.2.0; upgrade b, c"},
	} {
		all := upgradeObstacles(v, Fleet{Records: []*Record{tc.a, b, c}})
		if tc.name != "none" {
			if all[0].Reason != OtherBundle || all[0].Subject != "a" {
				t.Errorf("%s: it begins with %+v", tc.name, all[0])
			}
			all = all[1:]
		}
		if got := all[0].Message; got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestUpgradeObstacles_objects(t *testing.T) {
	leader := controller("a", "1.1.0").leading()
	named := func(n int, objects ...string) *Record {
		out := leader
		for _, o := range objects {
			out = out.warns(ObjectFailed)
			out.Presence.Warnings[len(out.Presence.Warnings)-1].Subject = o
		}
		out.Presence.Failing = n
		return out
	}
	for want, r := range map[string]*Record{
		`1 object fails: Role "x" (see FAILURES on a)`:                      named(1, `Role "x"`, `Role "y"`),
		`6 objects fail: Role "x", Role "y" and 4 more (see FAILURES on a)`: named(6, `Role "x"`, `Role "y"`),
		`2 objects fail (see FAILURES on a)`:                                named(2),
	} {
		if got := upgradeObstacles(presentStatus(Status{State: Done, Version: ver("1.1.0")}), Fleet{Records: []*Record{r}}); len(got) != 1 || got[0].Message != want {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}

// A node that has stopped for good leaves with its member of etcd: that comes first.
func TestUpgradeObstacles_deadVoter(t *testing.T) {
	f := Fleet{Revision: 1, Records: []*Record{controller("a", "1.0.0").leading(), controller("b", "1.0.0").serving(), controller("c", "1.0.0").dead()}}
	done := presentStatus(doneStatus("1.0.0"))
	const both = "it is not alive; start it again, or if it has stopped for good: sidecar cluster remove c; then: sidecar node remove c --confirm-stopped"
	for _, tt := range []struct {
		voters []Voter
		want   string
	}{
		{[]Voter{{Name: "a", Healthy: true}, {Name: "c"}}, both},
		{[]Voter{{Name: "a", Healthy: true}}, strings.Replace(both, "sidecar cluster remove c; then: ", "", 1)},
		{nil, strings.Replace(both, "sidecar cluster remove c; then: ", "", 1)},
	} {
		answer := JudgeUpgrade(UpgradeFacts{Status: done, Fleet: f, Voters: tt.voters})
		warned := FleetWarnings(UpgradeFacts{Status: done, Fleet: f, Voters: tt.voters}, "a")
		if answer.Obstacles[0].Message != tt.want || len(warned) != 1 || warned[0].Message != tt.want {
			t.Errorf("%v: got %v and %v, want %s", tt.voters, answer.Obstacles, warned, tt.want)
		}
		if f.Records[2].Votes {
			t.Error("the fleet itself was changed")
		}
		// In the middle of an upgrade, two messages name the departure: they name the same one.
		mixed := Fleet{Revision: 1, Records: []*Record{controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), f.Records[2]}}
		_, departure, _ := strings.Cut(tt.want, "for good: ")
		count := 0
		for _, o := range JudgeUpgrade(UpgradeFacts{Status: done, Fleet: mixed, Voters: tt.voters}).Obstacles {
			if strings.HasSuffix(o.Message, "if it has stopped for good: "+departure) {
				count++
			}
		}
		if count != 2 {
			t.Errorf("%v: %d messages say %s", tt.voters, count, departure)
		}
	}
}

// A warning exists for each obstacle that is not the upgrade itself, and that no node reports.
func TestFleetWarnings(t *testing.T) {
	f := Fleet{Revision: 1, Records: []*Record{
		controller("a", "1.1.0").leading(), controller("b", "1.0.0").dead(), controller("c", "1.1.0").closedBy(Starting),
		controller("d", "1.1.0").serving().warns(ServiceNotReady), controller("e", "1.1.0").corrupt("x"), controller("f", "1.1.0").serving().down(),
	}}
	of := func(own NodeID) (out []string) {
		for _, w := range FleetWarnings(UpgradeFacts{Status: presentStatus(doneStatus("1.0.0")), Fleet: f}, own) {
			out = append(out, fmt.Sprint(w.Reason, " ", w.Subject))
		}
		return out
	}
	if got, want := strings.Join(of("a"), ", "), "RecordCorrupt e, NodeDead b, GateClosed c, APIServerNotReady f"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := strings.Join(of("c"), ", "), "RecordCorrupt e, NodeDead b, APIServerNotReady f"; got != want {
		t.Errorf("on c: got %s, want %s", got, want)
	}
	if got := FleetWarnings(UpgradeFacts{}, "a"); got != nil {
		t.Errorf("before the fleet was read: got %+v", got)
	}
	f = Fleet{Revision: 1, Records: []*Record{controller("a", "1.1.0").closedBy(Fenced), controller("b", "1.1.0").closedBy(Fenced)}}
	if got, want := strings.Join(of("a"), ", "), "NoLeader , Outage , GateClosed b"; got != want {
		t.Errorf("no gate is open: got %s, want %s", got, want)
	}
}

// A node that may be restarting is not to be removed. The fleet itself stays as it is.
func TestUpgradeObstacles_restarts(t *testing.T) {
	old := controller("c", "1.0.0").dead()
	f := Fleet{Revision: 1, Records: []*Record{controller("a", "1.1.0").leading(), controller("b", "1.1.0").serving(), old}}
	for _, restarts := range []bool{true, false} {
		var text []string
		for _, o := range upgradeObstacles(presentStatus(doneStatus("1.0.0")), WithMayRestart(f, func(id NodeID) bool { return restarts && id != "b" })) {
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
