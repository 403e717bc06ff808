package publish

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A kube-apiserver that writes the Service adds its own address: that names it.
func TestNext_namesTheReconciler(t *testing.T) {
	a, b := cp("a").at("10.0.0.1", ""), cp("b").at("10.0.0.2", "")
	lost := Overwrites{Times: Patience + 1, Ago: time.Second, Manager: KubeAPIServer}
	for _, tt := range []struct {
		addresses []string
		names     string
	}{{[]string{"10.0.0.2"}, "the address of b alone"}, {[]string{"10.0.0.1", "10.0.0.2"}, ""}, {[]string{"10.9.9.9"}, ""}} {
		current := Object{Known: true, Addresses: tt.addresses, Port: 6443, Manager: KubeAPIServer}
		got := Next(Facts{Fleet: fleetOf(1, a, b, cp("c").at("10.0.0.3", "")), Store: "s", Family: IPv4, Current: current, Lost: lost})
		if tt.addresses[0] == "10.0.0.1" { // two of three
			tt.names = "the address of a, b alone"
		}
		if got.Reason != protocol.ReconcilerRuns || !strings.Contains(got.Message, tt.names) || tt.names == "" && strings.Contains(got.Message, "alone") || !strings.Contains(got.Message, "claims that name") {
			t.Errorf("%v: got %s: %s", tt.addresses, got.Reason, got.Message)
		}
	}
}

func TestOutside(t *testing.T) {
	if got := Outside(fleetOf(0, cp("a").ready(), cp("b").ready())); len(got) != 0 {
		t.Errorf("no node takes part: got %v", got)
	}
	got := Outside(fleetOf(0, cp("a").at("10.0.0.1", ""), cp("b").ready(), cp("c").ready().closed(protocol.ReleaseTooOld)))
	if len(got) != 1 || got[0].Subject != "b" || got[0].Reason != NotPublishing {
		t.Errorf("got %+v", got)
	}
	got = Outside(fleetOf(0, cp("a").at("10.0.0.1", "").closed(protocol.ReleaseTooOld), cp("b").ready()))
	if len(got) != 1 || got[0].Subject != "b" {
		t.Errorf("the one that takes part is not in service: got %+v", got)
	}
}
