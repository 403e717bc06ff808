package status

import (
	"strings"
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

// The fields of a newer program survive a write of this one.
func TestValue_keepsUnknownFields(t *testing.T) {
	previous, err := Encode(protocol.Status{State: protocol.Done}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const field31, ofTomorrow = "\xfa\x01", "\x08\x07"
	short, longest, tooLong := field31+"\x01x", field31+"\xfc\x1f"+strings.Repeat("x", 4092), field31+"\xfd\x1f"+strings.Repeat("x", 4093)
	for _, tt := range []struct{ name, previous, want string }{
		{"none", string(previous), ""},
		{"one", string(previous) + short, short},
		{"two", string(previous) + short + short, short + short},
		{"as many as possible", string(previous) + longest, longest},
		{"too many", string(previous) + tooLong, ""},
		{"of a corrupt value", "\xff\xfe" + short, ""},
		{"beside a state of tomorrow", string(previous) + ofTomorrow + short, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := UnknownIn(&etcd.KV{Value: []byte(tt.previous)})
			if string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			wantRoundTrip(t, Value{protocol.Status{State: protocol.Working, Leader: "n", Epoch: 7}, got})
		})
	}
	if got := UnknownIn(nil); got != "" {
		t.Errorf("no key: got %q", got)
	}
}
