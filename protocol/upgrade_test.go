package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
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

func (r Record) has(digest string) *Record { r.Node.Digest = digest; return &r }

func TestUpgradeObstacles(t *testing.T) {
	done := presentStatus(Status{State: Done, Version: ver("1.1.0")})
	working := presentStatus(Status{State: Working, Version: ver("1.1.0")})
	a := controller("a", "1.1.0").leading()
	for _, tc := range []struct {
		name    string
		view    StatusView
		records []*Record
		want    string // reasons and nodes
	}{
		{"all on it", done, []*Record{a, controller("b", "1.1.0").dead()}, ""},
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
		{"the leader is not alive", done, []*Record{a.dead(), controller("b", "1.1.0").serving()}, "NoLeader"},
		{"a worker leads", done, []*Record{controller("a", "1.1.0").serving(), controller("w", "1.1.0").leading().worker()}, "NoLeader"},
		{"an alive node without a gate", done, []*Record{a, controller("b", "1.1.0")}, "NoGate b"},
		{"a closed gate", done, []*Record{a, controller("b", "1.1.0").closedBy(ServicesNotReady)}, "GateClosed b"},
		{"a gate that is about to open", done, []*Record{a, controller("b", "1.1.0").closedBy(ReconcilerTooOld)}, "GateClosed b"},
		{"the only gate", done, []*Record{controller("a", "1.1.0").leading().closedBy(Fenced)}, "GateClosed a"},
		{"an upgraded node that waits for the others", done, []*Record{a, controller("b", "1.2.0").closedBy(ReconcilerTooOld)}, "UpgradeUnderWay"},
		{"a node that is left behind", done, []*Record{a, controller("b", "1.0.0").closedBy(ReleaseTooOld)}, "UpgradeUnderWay"},
		{"the first reconciliation", absentStatus(), []*Record{a.closedBy(StatusMissing)}, "UpgradeUnderWay"},
		{"a corrupt status and a closed gate", corruptStatus(), []*Record{a, controller("b", "1.1.0").closedBy(StatusCorrupt)}, "UpgradeUnderWay"},
		{"an upgraded node with a service that fails", done, []*Record{a, controller("b", "1.2.0").closedBy(ServicesNotReady)},
			"UpgradeUnderWay GateClosed b"},
		{"a node that stops in an upgrade", working, []*Record{a, controller("b", "1.1.0").closedBy(ShuttingDown)}, "UpgradeUnderWay GateClosed b"},
		{"a cordon closes the gate", done, []*Record{a, controller("b", "1.1.0").closedBy(Cordoned).cordoned()}, "Cordoned b"},
		{"an override opens a gate", done, []*Record{a, controller("b", "1.1.0").ready().warns(Overridden)}, "Overridden b"},
		{"a closed gate of a node that is not alive", done, []*Record{a, controller("b", "1.1.0").closedBy(Fenced).dead()}, ""},
		{"a closed gate of a worker", done, []*Record{a, controller("w", "1.1.0").closedBy(NotController).worker()}, ""},
		{"different bundles", done, []*Record{a.has("x"), controller("b", "1.1.0").serving().has("y")}, "BundlesDiffer"},
		{"a rejected bundle", done, []*Record{a, controller("b", "1.1.0").serving().warns(BundleRejected)}, "BundleRejected b"},
		{"a service fails", done, []*Record{a, controller("b", "1.1.0").serving().warns(ServiceFailing)}, "ServiceFailing b"},
		{"removals are held", done, []*Record{a.warns(RemovalsHeld)}, "RemovalsHeld a"},
		{"removals were held when another node led", done, []*Record{a, controller("b", "1.1.0").serving().warns(RemovalsHeld)}, ""},
		{"a fight holds nothing", done, []*Record{a.warns(Fight).warns(ObjectFailed).warns("")}, ""},
		{"a dead node's warnings do not count", done, []*Record{a, controller("b", "1.1.0").warns(BundleRejected).dead()}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, o := range UpgradeObstacles(tc.view, Fleet{Records: tc.records}) {
				got = append(got, strings.TrimSpace(fmt.Sprint(o.Reason, " ", o.Node)))
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
			if ready := UpgradeReady(tc.view, Fleet{Records: tc.records}); ready != (tc.want == "") {
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
					if UpgradeReady(view, Fleet{Records: []*Record{controller("a", "1.1.0").leading(), b}}) {
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
		got := UpgradeObstacles(presentStatus(doneStatus("1.0.0")), Fleet{Records: tc.records})
		if len(got) == 0 || got[0].Message != under+tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, got, under+tc.want)
		}
	}
}

func TestVoterObstacles(t *testing.T) {
	for _, tt := range []struct {
		voters string // one letter each: h is healthy
		want   string // indexes of those that hold the upgrade
	}{
		{"", ""},
		{"h", ""},
		{"hh", ""},
		{"hd", "1"},
		{"hhh", ""},
		{"hdh", "1"},
		{"ddh", "01"}, // etcd does not answer then, either
		{"hhdh", "2"},
		{"hhhhd", ""}, // three answer while one is upgraded
		{"dhhhd", "04"},
	} {
		var voters []NodeVoter
		for i, v := range tt.voters {
			voters = append(voters, NodeVoter{Name: strconv.Itoa(i), Address: "10.0.0.1", Healthy: v == 'h', Trouble: "trouble of " + strconv.Itoa(i)})
		}
		got := ""
		for _, o := range VoterObstacles(voters) {
			got += string(o.Node)
			if o.Reason != MemberDown || !strings.HasPrefix(o.Message, "trouble of "+string(o.Node)+"; ") {
				t.Errorf("%s: got %+v", tt.voters, o)
			}
		}
		if got != tt.want {
			t.Errorf("%s: held by %q, want %q", tt.voters, got, tt.want)
		}
	}
}
