package protocol

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// published is what Lockstep wrote.
func published(addresses ...string) ServiceObject {
	return ServiceObject{Known: true, Addresses: addresses, Port: 6443, Revision: 50, Store: "s", Own: true, Manager: "lockstep", Complete: true}
}

func byKubeAPIServer(addresses ...string) ServiceObject {
	return ServiceObject{Known: true, Addresses: addresses, Port: 6443, Manager: KubeAPIServer, Complete: true}
}

func TestPublish(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	three := published("10.0.0.1", "10.0.0.2", "10.0.0.3")
	lost := Overwrites{Times: Patience + 1, Ago: time.Second, Manager: KubeAPIServer}
	for _, tc := range []struct {
		name    string
		records []*Record
		current ServiceObject
		lost    Overwrites
		want    PublishKind
		reason  Reason
		writes  string
	}{
		{"in place", []*Record{a, b}, published("10.0.0.1", "10.0.0.2"), Overwrites{}, PublishKeep, Published, ""},
		{"a node has left", []*Record{a, b}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"a gate is closed", []*Record{a, b.closed(ReleaseTooOld)}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"a cordon that the gate has not seen", []*Record{a, b.cordoned()}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"a cordon, and an override", []*Record{a, b.cordoned().overridden()}, published("10.0.0.1"), Overwrites{}, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"an override of another reason", []*Record{a, b.overridden()}, published("10.0.0.1"), Overwrites{}, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"an override that has ended, and a cordon", []*Record{a, b.cordoned().closed(Cordoned)}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"an override without the role", []*Record{a, b.overridden().worker()}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"a node is dead", []*Record{a, b.dead()}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"a kube-apiserver is down", []*Record{a, b.down()}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"another port than most", []*Record{a, b.onPort(443), cp("c").at("10.0.0.3", "")}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1 10.0.0.3"},
		{"the port has changed", []*Record{a.onPort(443)}, published("10.0.0.1"), Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"two nodes with one address", []*Record{a, cp("b").at("10.0.0.1", "")}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"no node is ready", []*Record{a.closed(Cordoned), b.dead()}, three, Overwrites{}, PublishKeep, NoneReady, ""},
		{"the object does not exist", []*Record{a}, ServiceObject{Known: true}, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"the object was not read", []*Record{a}, ServiceObject{}, Overwrites{}, PublishWait, EndpointsUnread, ""},
		{"what kube-apiserver left behind", []*Record{a, b}, byKubeAPIServer("10.0.0.1"), Overwrites{}, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"the same addresses, without a revision", []*Record{a}, byKubeAPIServer("10.0.0.1"), Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"turned on on one node", []*Record{a, cp("b").ready()}, byKubeAPIServer("10.0.0.2"), Overwrites{}, PublishWait, NotPublishing, ""},
		{"turned on except on a node that is not ready", []*Record{a, cp("b")}, byKubeAPIServer("10.0.0.2"), Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"turned on on one node, and the Service is empty", []*Record{a, cp("b").ready()}, byKubeAPIServer(), Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"the flag was forgotten on one sidecar", []*Record{a, cp("b").ready()}, three, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"kube-apiserver has replaced it", []*Record{a, b}, byKubeAPIServer("10.0.0.2"), lost, PublishWait, ReconcilerRuns, ""},
		{"a client that claims to be kube-apiserver has replaced it once", []*Record{a, b}, byKubeAPIServer("10.0.0.9"), Overwrites{Times: 1, Ago: time.Second, Manager: KubeAPIServer}, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"kube-apiserver has emptied it", []*Record{a, b}, byKubeAPIServer(), lost, PublishWrite, Pending, "10.0.0.1 10.0.0.2"},
		{"kube-apiserver has replaced it long ago", []*Record{a}, byKubeAPIServer("10.0.0.2"), Overwrites{Times: Patience + 1, Ago: time.Hour, Manager: KubeAPIServer}, PublishWrite, Pending, "10.0.0.1"},
		{"a user has edited it", []*Record{a}, ServiceObject{Known: true, Addresses: []string{"10.0.0.9"}, Manager: "kubectl-edit"}, Overwrites{Times: 1, Manager: "kubectl-edit"}, PublishWrite, Pending, "10.0.0.1"},
		{"a client keeps editing it", []*Record{a}, ServiceObject{Known: true, Addresses: []string{"10.0.0.9"}, Manager: "other"}, Overwrites{Times: 3, Manager: "other"}, PublishWait, OtherWriter, ""},
		{"another store", []*Record{a}, ServiceObject{Known: true, Addresses: []string{"10.0.0.9"}, Store: "t", Revision: 5, Own: true}, Overwrites{}, PublishWait, OtherStore, ""},
		{"another store, and the Service is empty", []*Record{a}, ServiceObject{Known: true, Store: "t", Revision: 5, Own: true}, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"the store went back", []*Record{a}, ServiceObject{Known: true, Addresses: []string{"10.0.0.9"}, Store: "s", Revision: 5000, Own: true}, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
		{"a user has removed the label", []*Record{a}, ServiceObject{Known: true, Addresses: []string{"10.0.0.1"}, Port: 6443, Store: "s", Revision: 5, Own: true}, Overwrites{}, PublishWrite, Pending, "10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Publish(PublishFacts{
				Fleet: fleetOf(100, tc.records...), Store: "s", Family: IPv4, Current: tc.current, Lost: tc.lost,
			})
			if got.Kind != tc.want || got.Reason != tc.reason || strings.Join(got.Addresses, " ") != tc.writes {
				t.Errorf("got %+v, want kind %d, %s, %q", got, tc.want, tc.reason, tc.writes)
			}
			if got.Kind == PublishWrite && got.Revision != 100 {
				t.Errorf("got revision %d, want that of the snapshot", got.Revision)
			}
			if got.Message == "" || !slices.Contains(PublishReasons(), got.Reason) {
				t.Errorf("got %+v, want a reason that is listed, and a message", got)
			}
		})
	}
}

func TestPublish_family(t *testing.T) {
	f := fleetOf(100, cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("fd00::2", ""), cp("c").at("10.0.0.3", ""))
	for family, want := range map[Family]string{IPv4: "10.0.0.1 10.0.0.3", IPv6: "fd00::1 fd00::2"} {
		got := Publish(PublishFacts{Fleet: f, Store: "s", Family: family, Current: ServiceObject{Known: true}})
		if strings.Join(got.Addresses, " ") != want {
			t.Errorf("%s: got %v, want %s", family, got.Addresses, want)
		}
	}
	if got := ServiceFamilies(f); !slices.Equal(got, []Family{IPv4, IPv6}) {
		t.Errorf("got %v", got)
	}
	if got := ServiceFamilies(fleetOf(0, cp("b").at("fd00::2", "10.0.0.2"), cp("c").at("10.0.0.3", "").dead())); !slices.Equal(got, []Family{IPv6, IPv4}) {
		t.Errorf("got %v", got)
	}
}

// The annotation on the Service is a claim. The parent of the objects decides whose they
// are.
func TestPublish_parent(t *testing.T) {
	ours, another := published("10.0.0.1"), published("10.0.0.1")
	another.Store = "t"
	replaced := ServiceObject{Known: true, Addresses: []string{"10.0.0.9"}, Port: 6443, Revision: 50, Store: "t", Manager: "kubectl", Complete: true}
	for _, tc := range []struct {
		name    string
		current ServiceObject
		parent  string
		want    PublishKind
		reason  Reason
	}{
		{"no other store", ours, "", PublishKeep, Published},
		{"only the annotation was changed", another, "s", PublishWrite, Pending},
		{"the annotation and the addresses were changed", replaced, "s", PublishWrite, Pending},
		{"there are two stores", another, "t", PublishWait, OtherStore},
		{"there are three stores", another, "u", PublishWait, OtherStore},
		{"the parent is unknown", another, "", PublishWait, OtherStore},
	} {
		got := Publish(PublishFacts{
			Fleet: fleetOf(100, cp("a").at("10.0.0.1", "")), Store: "s", Parent: tc.parent, Family: IPv4, Current: tc.current,
		})
		if got.Kind != tc.want || got.Reason != tc.reason {
			t.Errorf("%s: got %+v, want kind %d, %s", tc.name, got, tc.want, tc.reason)
		}
		if tc.reason == OtherStore && got.Retry != ParentRetry {
			t.Errorf("%s: got a wait of %s, want the parent to be read again", tc.name, got.Retry)
		}
	}
}

func TestPublish_withoutStore(t *testing.T) {
	got := Publish(PublishFacts{Fleet: fleetOf(1, cp("a").at("10.0.0.1", "")), Family: IPv4, Current: ServiceObject{Known: true}})
	if got.Kind != PublishWait {
		t.Errorf("got %+v", got)
	}
}

func TestServiceNodes(t *testing.T) {
	f := fleetOf(0,
		cp("a").at("10.0.0.1", ""), cp("b").at("10.0.0.2", "").closed(ReconcilerTooOld), cp("c").ready(), cp("d").at("10.0.0.4", "").dead(),
		cp("e").at("10.0.0.5", "").cordoned(), cp("f").at("10.0.0.6", "").down(), cp("g").at("10.0.0.7", "").onPort(443), cp("h").worker(),
		cp("i").at("10.0.0.9", ""), cp("j").at("10.0.0.10", "").cordoned().overridden(), cp("k").at("10.0.0.11", "").closed(Ready),
	)
	want := []Reason{
		Ready, ReconcilerTooOld, NotPublishing, NoPresence, Cordoned, APIServerNotReady, PortDiffers, Ready, Overridden, NotRegistered,
	}
	var got []Reason
	for _, n := range ServiceNodes(f) {
		got = append(got, n.Reason)
		if n.Serves != (n.Reason == Ready || n.Reason == Overridden) || n.Message == "" {
			t.Errorf("got %+v", n)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A client that writes again and again is left alone for longer and longer, whatever it
// calls itself. After each pause it has to do so again.
func TestOverwrites_Pause(t *testing.T) {
	for _, tc := range []struct {
		times   int
		manager string
		want    time.Duration
	}{
		{0, KubeAPIServer, 0}, {1, KubeAPIServer, 0}, {2, KubeAPIServer, 0}, {3, KubeAPIServer, time.Minute}, {4, KubeAPIServer, 0},
		{6, KubeAPIServer, 2 * time.Minute}, {99, KubeAPIServer, 10 * time.Minute}, {100, KubeAPIServer, 0}, {-3, KubeAPIServer, 0},
		{1, "kubectl-edit", 0}, {3, "kubectl-edit", time.Minute},
	} {
		if got := (Overwrites{Times: tc.times, Manager: tc.manager}).Pause(); got != tc.want {
			t.Errorf("%d by %s: got %s, want %s", tc.times, tc.manager, got, tc.want)
		}
	}
}

func TestOverwritten(t *testing.T) {
	for _, tc := range []struct {
		name     string
		was, now ServiceObject
		want     bool
	}{
		{"replaced", published("10.0.0.1"), byKubeAPIServer("10.0.0.2"), true},
		{"emptied", published("10.0.0.1"), byKubeAPIServer(), false},
		{"the same", published("10.0.0.1"), byKubeAPIServer("10.0.0.1"), false},
		{"written by Lockstep", published("10.0.0.1"), published("10.0.0.2"), false},
		{"not Lockstep's before", byKubeAPIServer("10.0.0.1"), byKubeAPIServer("10.0.0.2"), false},
	} {
		if got := Overwritten(tc.was, tc.now); got != tc.want {
			t.Errorf("%s: got %t", tc.name, got)
		}
	}
}

// The leader writes first, and not the one that cannot, or has to stop.
func TestPublishTurn(t *testing.T) {
	a, b, c := cp("a").at("10.0.0.1", ""), cp("b").at("10.0.0.2", ""), cp("c").at("10.0.0.3", "")
	for _, tc := range []struct {
		name    string
		records []*Record
		want    string
	}{
		{"the leader", []*Record{a, b, c.leading()}, "c a b"},
		{"without a leader", []*Record{a, b, c}, "a b c"},
		{"a leader whose kube-apiserver is down", []*Record{a, b, c.leading().down()}, "a b c"},
		{"a leader whose gate is closed", []*Record{a.leading().closed(ShuttingDown), b, c}, "b c a"},
	} {
		f := fleetOf(0, tc.records...)
		ids := []NodeID{"a", "b", "c"}
		slices.SortStableFunc(ids, func(x, y NodeID) int { return int(PublishTurn(f, x) - PublishTurn(f, y)) })
		var got []string
		for i, id := range ids {
			got = append(got, string(id))
			if want := time.Duration(i) * turnAfter; PublishTurn(f, id) != want {
				t.Errorf("%s: %s waits %s, want %s", tc.name, id, PublishTurn(f, id), want)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %v, want %s", tc.name, got, tc.want)
		}
	}
	if got := PublishTurn(Fleet{}, "x"); got != 0 {
		t.Errorf("got %s", got)
	}
}
