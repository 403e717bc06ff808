package protocol

import (
	"strings"
	"testing"
)

// The last dual-stack node leaves: both of its addresses do. The slice of the Service's
// own family and the Endpoints never lose their last one.
func TestPublish_second(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	theirs := byKubeAPIServer("fd00::9")
	for _, tc := range []struct {
		name    string
		records []*Record
		isFirst bool
		current ServiceObject
		want    PublishKind
		reason  Reason
	}{
		{"a node has an address of the family", []*Record{a, b}, false, published("fd00::1"), PublishKeep, Published},
		{"none has, and the Service has another family", []*Record{a.closed(ShuttingDown), b}, false, published("fd00::1"), PublishWrite, Pending},
		{"the same, of the first slice", []*Record{a.closed(ShuttingDown), b}, true, published("fd00::1"), PublishKeep, NoneReady},
		{"it is empty", []*Record{b}, false, published(), PublishKeep, Published},
		{"another client wrote it", []*Record{b}, false, theirs, PublishKeep, Published},
		{"no node is ready at all", []*Record{a.closed(ShuttingDown), b.dead()}, false, published("fd00::1"), PublishKeep, NoneReady},
		{"another store", []*Record{b}, false, ServiceObject{Known: true, Own: true, Revision: 5, Store: "t", Addresses: []string{"fd00::1"}}, PublishWait, OtherStore},
		{"not read yet", []*Record{b}, false, ServiceObject{}, PublishWait, EndpointsUnread},
	} {
		got := Publish(PublishFacts{
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

func TestMayLeave(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", "fd00::1"), cp("b").at("10.0.0.2", "")
	part := func(kind PublishKind, addresses ...string) ServicePart { return ServicePart{true, addresses, kind} }
	both := []string{"10.0.0.1", "10.0.0.2"}
	for _, tc := range []struct {
		name  string
		own   *Record
		parts []ServicePart
		want  bool
	}{
		{"its presence is not observed yet", a, []ServicePart{part(PublishKeep, both...)}, true},
		{"about to be written", a.closed(ShuttingDown), []ServicePart{part(PublishWrite, both...)}, true},
		{"about to be written, the second family", a.closed(ShuttingDown), []ServicePart{part(PublishKeep, "10.0.0.2"), part(PublishWrite, "fd00::1")}, true},
		{"it has left, and something else is written", a.closed(ShuttingDown), []ServicePart{part(PublishWrite, "10.0.0.2")}, false},
		{"it has left", a.closed(ShuttingDown), []ServicePart{part(PublishKeep, "10.0.0.2"), part(PublishKeep)}, false},
		{"the last address stays", a.closed(ShuttingDown), []ServicePart{part(PublishKeep, "10.0.0.1")}, false},
		{"another client writes", a.closed(ShuttingDown), []ServicePart{part(PublishWait, both...)}, false},
		{"another node has its address", a.closed(ShuttingDown), []ServicePart{part(PublishKeep, both...)}, false},
		{"its record was removed, and it is about to be written", nil, []ServicePart{part(PublishWrite, both...)}, true},
		{"its record was removed, and it has left", nil, []ServicePart{part(PublishKeep, "10.0.0.2")}, false},
		{"nothing was read yet", a.closed(ShuttingDown), nil, true},
		{"the Endpoints were not read yet", a.closed(ShuttingDown), []ServicePart{part(PublishKeep, "10.0.0.2"), {Kind: PublishWait}}, true},
	} {
		f := fleetOf(100, b)
		if tc.own != nil {
			f = fleetOf(100, tc.own, b)
		}
		if got := MayLeave(f, "a", a.Presence.Endpoint, tc.parts); got != tc.want {
			t.Errorf("%s: got %t", tc.name, got)
		}
	}
	if !MayLeave(Fleet{}, "a", a.Presence.Endpoint, nil) {
		t.Error("the fleet was not observed yet, and it has left")
	}
	if MayLeave(Fleet{Revision: 1}, "a", Endpoint{Address: "10.0.0.1"}, []ServicePart{part(PublishWrite, "")}) {
		t.Error("a missing second address counts as one")
	}
}
