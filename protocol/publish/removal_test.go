package publish

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The last dual-stack node leaves: both of its addresses do. The slice of the Service's
// own family and the Endpoints never lose their last one.
func TestNext_second(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	theirs := byKubeAPIServer("fd00::9")
	for _, tc := range []struct {
		name    string
		records []*record
		isFirst bool
		current Object
		want    Kind
		reason  protocol.Reason
	}{
		{"a node has an address of the family", []*record{a, b}, false, published("fd00::1"), Keep, Published},
		{"none has, and the Service has another family", []*record{a.closed(protocol.ShuttingDown), b}, false, published("fd00::1"), Write, Pending},
		{"the same, of the first slice", []*record{a.closed(protocol.ShuttingDown), b}, true, published("fd00::1"), Keep, NoneReady},
		{"it is empty", []*record{b}, false, published(), Keep, Published},
		{"another client wrote it", []*record{b}, false, theirs, Keep, Published},
		{"no node is ready at all", []*record{a.closed(protocol.ShuttingDown), b.dead()}, false, published("fd00::1"), Keep, NoneReady},
		{"another store", []*record{b}, false, Object{Known: true, Own: true, Revision: 5, Store: "t", Addresses: []string{"fd00::1"}}, Wait, protocol.OtherStore},
		{"not read yet", []*record{b}, false, Object{}, Wait, EndpointsUnread},
	} {
		got := Next(Facts{
			Fleet: fleetOf(100, tc.records...), Store: "s", Family: IPv6, Second: !tc.isFirst, Current: tc.current,
		})
		if got.Kind != tc.want || got.Reason != tc.reason || got.Message == "" || len(got.Addresses) > 0 {
			t.Errorf("%s: got %+v, want kind %d, %s", tc.name, got, tc.want, tc.reason)
		}
		if hasFamily := strings.Contains(got.Message, "IPv6 address is ready"); hasFamily != (tc.isFirst && got.Reason == NoneReady) {
			t.Errorf("%s: got %q", tc.name, got.Message)
		}
	}
}

func TestRemovalPending(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	part := func(kind Kind, addresses ...string) Part { return Part{true, addresses, kind} }
	both := []string{"10.0.0.1", "10.0.0.2"}
	for _, tc := range []struct {
		name  string
		own   *record
		parts []Part
		want  bool
	}{
		{"its presence is not observed yet", a, []Part{part(Keep, both...)}, true},
		{"about to be written", a.closed(protocol.ShuttingDown), []Part{part(Write, both...)}, true},
		{"about to be written, the second family", a.closed(protocol.ShuttingDown), []Part{part(Keep, "10.0.0.2"), part(Write, "fd00::1")}, true},
		{"it has left, and something else is written", a.closed(protocol.ShuttingDown), []Part{part(Write, "10.0.0.2")}, false},
		{"it has left", a.closed(protocol.ShuttingDown), []Part{part(Keep, "10.0.0.2"), part(Keep)}, false},
		{"the last address stays", a.closed(protocol.ShuttingDown), []Part{part(Keep, "10.0.0.1")}, false},
		{"another client writes", a.closed(protocol.ShuttingDown), []Part{part(Wait, both...)}, false},
		{"another node has its address", a.closed(protocol.ShuttingDown), []Part{part(Keep, both...)}, false},
		{"its record was removed, and it is about to be written", nil, []Part{part(Write, both...)}, true},
		{"its record was removed, and it has left", nil, []Part{part(Keep, "10.0.0.2")}, false},
		{"nothing was read yet", a.closed(protocol.ShuttingDown), nil, true},
		{"the Endpoints were not read yet", a.closed(protocol.ShuttingDown), []Part{part(Keep, "10.0.0.2"), {Kind: Wait}}, true},
	} {
		f := fleetOf(100, b)
		if tc.own != nil {
			f = fleetOf(100, tc.own, b)
		}
		if got := RemovalPending(f, "a", a.Presence.Endpoint, tc.parts); got != tc.want {
			t.Errorf("%s: got %t", tc.name, got)
		}
	}
	if !RemovalPending(protocol.Fleet{}, "a", a.Presence.Endpoint, nil) {
		t.Error("the fleet was not observed yet, and it has left")
	}
	if RemovalPending(protocol.Fleet{Revision: 1}, "a", protocol.Endpoint{Address: "10.0.0.1"}, []Part{part(Write, "")}) {
		t.Error("a missing second address counts as one")
	}
}
