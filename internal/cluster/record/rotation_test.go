package record

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

func TestRotation(t *testing.T) {
	for _, want := range []Rotation{
		{Phase: membership.RotationRequested, Started: noon, Since: noon},
		{
			Phase: membership.RotationDropping, Started: noon, Since: noon, Certificate: "PEM", Hash: pki.Hash{1},
			Turn: "a", Given: []protocol.NodeID{"a", "b"}, Lost: []protocol.NodeID{"c"},
		},
		{Started: noon, Since: noon, Hash: pki.Hash{1}},
	} {
		got, err := DecodeRotation(EncodeRotation(want))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for name, value := range map[string]string{"no JSON": "x", "empty": "", "no hash": `{"phase": "Trusting"}`, "another phase": `{"phase": "Later", "hash": "00"}`} {
		if _, err := DecodeRotation([]byte(value)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

func TestRotationReport(t *testing.T) {
	want := RotationReport{Node: "a.b", CA: pki.Hash{1}, Key: pki.Hash{2}, TrustsNew: true, HasKey: true}
	got, err := DecodeRotationReport(keys.RotationReport(want.Node), EncodeRotationReport(want))
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := DecodeRotationReport(keys.RotationReport("a"), []byte("{}")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}
