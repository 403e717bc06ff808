package publish

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// published is what Lockstep wrote.
func published(addresses ...string) Object {
	return Object{Known: true, Addresses: addresses, Port: 6443, Revision: 50, Store: "s", Own: true, Manager: "lockstep", Complete: true}
}

func byKubeAPIServer(addresses ...string) Object {
	return Object{Known: true, Addresses: addresses, Port: 6443, Manager: KubeAPIServer, Complete: true}
}

func TestNext(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	three := published("10.0.0.1", "10.0.0.2", "10.0.0.3")
	lost := Overwrites{Times: Patience + 1, Ago: time.Second, Manager: KubeAPIServer}
	for _, tc := range []struct {
		name    string
		records []*record
		current Object
		lost    Overwrites
		want    Kind
		reason  protocol.Reason
		writes  string
	}{
		{"in place", []*record{a, b}, published("10.0.0.1", "10.0.0.2"), Overwrites{}, Keep, Published, ""},
		{"a node has left", []*record{a, b}, three, Overwrites{}, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"a gate is closed", []*record{a, b.closed(protocol.ReleaseTooOld)}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"a cordon that the gate has not seen", []*record{a, b.cordoned()}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"a cordon, and an override", []*record{a, b.cordoned().overridden()}, published("10.0.0.1"), Overwrites{}, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"an override of another reason", []*record{a, b.overridden()}, published("10.0.0.1"), Overwrites{}, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"an override that has ended, and a cordon", []*record{a, b.cordoned().closed(protocol.Cordoned)}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"an override without the role", []*record{a, b.overridden().worker()}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"a node is dead", []*record{a, b.dead()}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"a kube-apiserver is down", []*record{a, b.down()}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"another port than most", []*record{a, b.onPort(443), cp("c").at("10.0.0.3", "")}, three, Overwrites{}, Write, Pending, "10.0.0.1 10.0.0.3"},
		{"the port has changed", []*record{a.onPort(443)}, published("10.0.0.1"), Overwrites{}, Write, Pending, "10.0.0.1"},
		{"two nodes with one address", []*record{a, cp("b").at("10.0.0.1", "")}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"no node is ready", []*record{a.closed(protocol.Cordoned), b.dead()}, three, Overwrites{}, Keep, NoneReady, ""},
		{"the object does not exist", []*record{a}, Object{Known: true}, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"the object was not read", []*record{a}, Object{}, Overwrites{}, Wait, EndpointsUnread, ""},
		{"what kube-apiserver left behind", []*record{a, b}, byKubeAPIServer("10.0.0.1"), Overwrites{}, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"the same addresses, without a revision", []*record{a}, byKubeAPIServer("10.0.0.1"), Overwrites{}, Write, Pending, "10.0.0.1"},
		{"turned on on one node", []*record{a, cp("b").ready()}, byKubeAPIServer("10.0.0.2"), Overwrites{}, Wait, NotPublishing, ""},
		{"turned on except on a node that is not ready", []*record{a, cp("b")}, byKubeAPIServer("10.0.0.2"), Overwrites{}, Write, Pending, "10.0.0.1"},
		{"turned on on one node, and the Service is empty", []*record{a, cp("b").ready()}, byKubeAPIServer(), Overwrites{}, Write, Pending, "10.0.0.1"},
		{"the flag was forgotten on one sidecar", []*record{a, cp("b").ready()}, three, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"kube-apiserver has replaced it", []*record{a, b}, byKubeAPIServer("10.0.0.2"), lost, Wait, protocol.ReconcilerRuns, ""},
		{"a client that claims to be kube-apiserver has replaced it once", []*record{a, b}, byKubeAPIServer("10.0.0.9"), Overwrites{Times: 1, Ago: time.Second, Manager: KubeAPIServer}, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"kube-apiserver has emptied it", []*record{a, b}, byKubeAPIServer(), lost, Write, Pending, "10.0.0.1 10.0.0.2"},
		{"kube-apiserver has replaced it long ago", []*record{a}, byKubeAPIServer("10.0.0.2"), Overwrites{Times: Patience + 1, Ago: time.Hour, Manager: KubeAPIServer}, Write, Pending, "10.0.0.1"},
		{"a user has edited it", []*record{a}, Object{Known: true, Addresses: []string{"10.0.0.9"}, Manager: "kubectl-edit"}, Overwrites{Times: 1, Manager: "kubectl-edit"}, Write, Pending, "10.0.0.1"},
		{"a client keeps editing it", []*record{a}, Object{Known: true, Addresses: []string{"10.0.0.9"}, Manager: "other"}, Overwrites{Times: 3, Manager: "other"}, Wait, protocol.OtherWriter, ""},
		{"another store", []*record{a}, Object{Known: true, Addresses: []string{"10.0.0.9"}, Store: "t", Revision: 5, Own: true}, Overwrites{}, Wait, protocol.OtherStore, ""},
		{"another store, and the Service is empty", []*record{a}, Object{Known: true, Store: "t", Revision: 5, Own: true}, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"the store went back", []*record{a}, Object{Known: true, Addresses: []string{"10.0.0.9"}, Store: "s", Revision: 5000, Own: true}, Overwrites{}, Write, Pending, "10.0.0.1"},
		{"a user has removed the label", []*record{a}, Object{Known: true, Addresses: []string{"10.0.0.1"}, Port: 6443, Store: "s", Revision: 5, Own: true}, Overwrites{}, Write, Pending, "10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Next(Facts{
				Fleet: fleetOf(100, tc.records...), Store: "s", Family: IPv4, Current: tc.current, Lost: tc.lost,
			})
			if got.Kind != tc.want || got.Reason != tc.reason || strings.Join(got.Addresses, " ") != tc.writes {
				t.Errorf("got %+v, want kind %d, %s, %q", got, tc.want, tc.reason, tc.writes)
			}
			if got.Kind == Write && got.Revision != 100 {
				t.Errorf("got revision %d, want that of the snapshot", got.Revision)
			}
			if got.Message == "" || !slices.Contains(Reasons(), got.Reason) {
				t.Errorf("got %+v, want a reason that is listed, and a message", got)
			}
		})
	}
}

func TestNext_family(t *testing.T) {
	f := fleetOf(100, cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("fd00::2", ""), cp("c").at("10.0.0.3", ""))
	for family, want := range map[Family]string{IPv4: "10.0.0.1 10.0.0.3", IPv6: "fd00::1 fd00::2"} {
		got := Next(Facts{Fleet: f, Store: "s", Family: family, Current: Object{Known: true}})
		if strings.Join(got.Addresses, " ") != want {
			t.Errorf("%s: got %v, want %s", family, got.Addresses, want)
		}
	}
	if got := Families(f); !slices.Equal(got, []Family{IPv4, IPv6}) {
		t.Errorf("got %v", got)
	}
	if got := Families(fleetOf(0, cp("b").at("fd00::2", "10.0.0.2"), cp("c").at("10.0.0.3", "").dead())); !slices.Equal(got, []Family{IPv6, IPv4}) {
		t.Errorf("got %v", got)
	}
}

// The annotation on the Service is a claim. The parent of the objects decides whose they
// are.
func TestNext_parent(t *testing.T) {
	ours, another := published("10.0.0.1"), published("10.0.0.1")
	another.Store = "t"
	replaced := Object{Known: true, Addresses: []string{"10.0.0.9"}, Port: 6443, Revision: 50, Store: "t", Manager: "kubectl", Complete: true}
	for _, tc := range []struct {
		name    string
		current Object
		parent  string
		want    Kind
		reason  protocol.Reason
	}{
		{"no other store", ours, "", Keep, Published},
		{"only the annotation was changed", another, "s", Write, Pending},
		{"the annotation and the addresses were changed", replaced, "s", Write, Pending},
		{"there are two stores", another, "t", Wait, protocol.OtherStore},
		{"there are three stores", another, "u", Wait, protocol.OtherStore},
		{"the parent is unknown", another, "", Wait, protocol.OtherStore},
	} {
		got := Next(Facts{
			Fleet: fleetOf(100, cp("a").at("10.0.0.1", "")), Store: "s", Parent: tc.parent, Family: IPv4, Current: tc.current,
		})
		if got.Kind != tc.want || got.Reason != tc.reason {
			t.Errorf("%s: got %+v, want kind %d, %s", tc.name, got, tc.want, tc.reason)
		}
		if tc.reason == protocol.OtherStore && got.Retry != ParentRetry {
			t.Errorf("%s: got a wait of %s, want the parent to be read again", tc.name, got.Retry)
		}
	}
}

func TestNext_withoutStore(t *testing.T) {
	got := Next(Facts{Fleet: fleetOf(1, cp("a").at("10.0.0.1", "")), Family: IPv4, Current: Object{Known: true}})
	if got.Kind != Wait {
		t.Errorf("got %+v", got)
	}
}

func TestNodes(t *testing.T) {
	f := fleetOf(0,
		cp("a").at("10.0.0.1", ""), cp("b").at("10.0.0.2", "").closed(protocol.ReconcilerTooOld), cp("c").ready(), cp("d").at("10.0.0.4", "").dead(),
		cp("e").at("10.0.0.5", "").cordoned(), cp("f").at("10.0.0.6", "").down(), cp("g").at("10.0.0.7", "").onPort(443), cp("h").worker(),
		cp("i").at("10.0.0.9", ""), cp("j").at("10.0.0.10", "").cordoned().overridden(), cp("k").at("10.0.0.11", "").closed(protocol.Ready),
	)
	want := []protocol.Reason{
		protocol.Ready, protocol.ReconcilerTooOld, NotPublishing, protocol.NoPresence, protocol.Cordoned, protocol.APIServerNotReady, PortDiffers, protocol.Ready, protocol.Overridden, protocol.NotRegistered,
	}
	var got []protocol.Reason
	for _, n := range Nodes(f) {
		got = append(got, n.Reason)
		if n.Serves != (n.Reason == protocol.Ready || n.Reason == protocol.Overridden) || n.Message == "" {
			t.Errorf("got %+v", n)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Of ports that are equally common the first one counts, also beside a presence without a port.
func TestNodes_port(t *testing.T) {
	for _, tc := range []struct{ ports, want []int }{
		{[]int{443, 0}, []int{443}}, {[]int{0, 443}, []int{0}}, {[]int{6443, 443, 443}, []int{443, 443}}, {[]int{443, 6443, 6443, 443}, []int{443, 443}},
	} {
		var records []*record
		for _, port := range tc.ports {
			records = append(records, cp("a").at("10.0.0.1", "").onPort(port))
		}
		var got []int
		for _, n := range Nodes(fleetOf(0, records...)) {
			if n.Serves {
				got = append(got, n.Endpoint.Port)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v: got %v, want %v", tc.ports, got, tc.want)
		}
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
		if got := (Overwrites{Times: tc.times, Manager: tc.manager}).pause(); got != tc.want {
			t.Errorf("%d by %s: got %s, want %s", tc.times, tc.manager, got, tc.want)
		}
	}
}

func TestOverwritten(t *testing.T) {
	for _, tc := range []struct {
		name     string
		was, now Object
		want     bool
	}{
		{"replaced", published("10.0.0.1"), byKubeAPIServer("10.0.0.2"), true},
		{"emptied", published("10.0.0.1"), byKubeAPIServer(), false},
		{"the same", published("10.0.0.1"), byKubeAPIServer("10.0.0.1"), false},
		{"written by Lockstep", published("10.0.0.1"), published("10.0.0.2"), false},
		{"not Lockstep's before", byKubeAPIServer("10.0.0.1"), byKubeAPIServer("10.0.0.2"), false},
	} {
		if got := overwritten(tc.was, tc.now); got != tc.want {
			t.Errorf("%s: got %t", tc.name, got)
		}
	}
}

// Overwrites during a pause belong to the one that began it, and a long rest forgets them all.
func TestOverwrites_After(t *testing.T) {
	for name, tc := range map[string]struct {
		before Overwrites
		kept   time.Duration
		times  int
		counts bool
	}{
		"the first":              {Overwrites{}, 0, 1, true},
		"the one before a pause": {Overwrites{Times: Patience}, 0, Patience + 1, true},
		"during the pause":       {Overwrites{Times: Patience + 1, Ago: firstPause - 1}, 0, Patience + 1, false},
		"after the pause":        {Overwrites{Times: Patience + 1, Ago: firstPause}, 0, Patience + 2, true},
		"after a short rest":     {Overwrites{Times: Patience}, forgetOverwritesAfter - 1, Patience + 1, true},
		"after a long rest":      {Overwrites{Times: Patience}, forgetOverwritesAfter, 1, true},
	} {
		got, counts := tc.before.After(published("10.0.0.1"), byKubeAPIServer("10.0.0.2"), tc.kept)
		if got.Times != tc.times || counts != tc.counts || counts && (got.Ago != 0 || got.Manager != KubeAPIServer) {
			t.Errorf("%s: got %+v, %t, want %d, %t", name, got, counts, tc.times, tc.counts)
		}
	}
	if got, counts := (Overwrites{Times: 1}).After(published("10.0.0.1"), published("10.0.0.2"), 0); counts || got.Times != 1 {
		t.Errorf("written by Lockstep: got %+v, %t", got, counts)
	}
}

// The leader writes first, and not the one that cannot, or has to stop.
func TestDelay(t *testing.T) {
	a, b, c := cp("a").at("10.0.0.1", ""), cp("b").at("10.0.0.2", ""), cp("c").at("10.0.0.3", "")
	for _, tc := range []struct {
		name    string
		records []*record
		want    string
	}{
		{"the leader", []*record{a, b, c.leading()}, "c a b"},
		{"without a leader", []*record{a, b, c}, "a b c"},
		{"a leader whose kube-apiserver is down", []*record{a, b, c.leading().down()}, "a b c"},
		{"a leader whose gate is closed", []*record{a.leading().closed(protocol.ShuttingDown), b, c}, "b c a"},
	} {
		f := fleetOf(0, tc.records...)
		ids := []protocol.NodeID{"a", "b", "c"}
		slices.SortStableFunc(ids, func(x, y protocol.NodeID) int { return int(Delay(f, x) - Delay(f, y)) })
		var got []string
		for i, id := range ids {
			got = append(got, string(id))
			if want := time.Duration(i) * turnAfter; Delay(f, id) != want {
				t.Errorf("%s: %s waits %s, want %s", tc.name, id, Delay(f, id), want)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %v, want %s", tc.name, got, tc.want)
		}
	}
	if got := Delay(protocol.Fleet{}, "x"); got != 0 {
		t.Errorf("got %s", got)
	}
}
