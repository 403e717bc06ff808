package noderecord

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestMustYieldID(t *testing.T) {
	for _, tc := range []struct {
		name                string
		holder              protocol.Presence
		held, want          bool
		instance, machineID string
	}{
		{"own presence", protocol.Presence{Instance: "i", MachineID: "m"}, true, false, "i", "m"},
		{"an older one on this machine", protocol.Presence{Instance: "j", MachineID: "m"}, false, false, "i", "m"},
		{"a newer one on this machine", protocol.Presence{Instance: "j", MachineID: "m"}, true, true, "i", "m"},
		{"one on another machine", protocol.Presence{Instance: "j", MachineID: "n"}, false, true, "i", "m"},
		{"one that came while this was cut off", protocol.Presence{Instance: "j", MachineID: "n"}, true, true, "i", "m"},
		{"machines unknown", protocol.Presence{Instance: "j"}, false, true, "i", ""},
		{"garbage", protocol.Presence{}, true, false, "i", "m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := MustYieldID(DuplicateFacts{Holder: tc.holder, Instance: tc.instance, MachineID: tc.machineID, Held: tc.held}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
