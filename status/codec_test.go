package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestCodec(t *testing.T) {
	s := protocol.Status{
		State: protocol.Working, Version: protocol.Version{Release: rel(t, "1.2.3"), Prerelease: "rc.1", Build: "g0"},
		MinCompatible: rel(t, "1.1.0"), Leader: "n", Epoch: 7, DrainedEpoch: 6, Digest: "d", Bundle: "acme",
		ContentRelease: rel(t, "1.3.0"), ContentEpoch: 9,
	}
	value, err := Encode(s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := Decode(&etcd.KV{Value: value, ModRevision: 5})
	if diff := cmp.Diff(protocol.StatusView{Kind: protocol.StatusPresent, Status: s, Revision: 5}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Decode(nil); got.Kind != protocol.StatusAbsent {
		t.Errorf("no key: got %+v", got)
	}
	if _, err := Encode(protocol.Status{}, time.Now()); err == nil {
		t.Error("a status without a state was encoded")
	}
}

func TestDecode_corrupt(t *testing.T) {
	for name, value := range map[string][]byte{
		"garbage":             []byte("\xff\xfe"),
		"empty":               {},
		"no version":          {0x08, 0x01, 0x1a, 0x00},
		"no minimum":          {0x08, 0x01, 0x12, 0x02, 0x0a, 0x00},
		"no state":            {0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00},
		"a state of tomorrow": {0x08, 0x07, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00},
	} {
		if got := Decode(&etcd.KV{Value: value, ModRevision: 5}); got.Kind != protocol.StatusUndecodable || got.Problem == "" || got.Revision != 5 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// The least that people may write by hand.
	if got := Decode(&etcd.KV{Value: []byte{0x08, 0x01, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00}}); got.Kind != protocol.StatusPresent {
		t.Errorf("got %+v", got)
	}
}
