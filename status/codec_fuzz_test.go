package status

import (
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
)

// FuzzDecode: what is in the status key never stops a leader: it can be encoded
// again, and is the same then.
func FuzzDecode(f *testing.F) {
	valid, err := Encode(protocol.Status{State: protocol.Done, ContentEpoch: 7, Digest: "d", Leader: "n", Epoch: 3, DrainedEpoch: 3}, time.Unix(1, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add(append(slices.Clone(valid), "\xfa\x01\x01x\x40\x01\x45abcd"...)) // field 31, and field 8 of two types
	f.Add([]byte("\xff\xfe"))
	f.Add([]byte{0x08, 0x01, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})       // MaxInt64
	f.Add([]byte{0x08, 0x01, 0x12, 0x02, 0x0a, 0x00, 0x1a, 0x00, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}) // -1
	f.Fuzz(func(t *testing.T, value []byte) {
		kv := &etcd.KV{Value: value, ModRevision: 5}
		v := Decode(kv)
		if v.Kind != protocol.StatusPresent {
			if v.Kind != protocol.StatusUndecodable || v.Problem == "" {
				t.Fatalf("got %+v", v)
			}
			return
		}
		wantRoundTrip(t, Value{v.Status, UnknownIn(kv)})
	})
}

// FuzzEncode: what can be encoded is decoded as the same status.
func FuzzEncode(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3), int64(4), int64(5), "rc.1", "digest")
	f.Add(int64(0), int64(0), int64(0), int64(protocol.MaxContentEpoch), int64(-1), "", "")
	f.Add(int64(0), int64(0), int64(-1), int64(protocol.MaxContentEpoch+1), int64(0), "", "")
	f.Fuzz(func(t *testing.T, major, minor, patch, contentEpoch, epoch int64, prerelease, digest string) {
		r := protocol.Release{Major: major, Minor: minor, Patch: patch}
		s := protocol.Status{
			State: protocol.Working, Version: protocol.Version{Release: r, Prerelease: prerelease}, MinCompatible: r, ContentRelease: r,
			ContentEpoch: contentEpoch, Epoch: epoch, DrainedEpoch: epoch, Digest: digest, Leader: protocol.NodeID(digest),
		}
		valid := major >= 0 && minor >= 0 && patch >= 0 && (contentEpoch == 0 || protocol.IsContentEpoch(contentEpoch)) &&
			utf8.ValidString(prerelease) && utf8.ValidString(digest)
		if _, err := Encode(s, time.Unix(1, 0)); (err == nil) != valid {
			t.Fatalf("%s: got %v, want it to be encoded: %t", s, err, valid)
		}
		if valid {
			wantRoundTrip(t, Value{Status: s})
		}
	})
}

func wantRoundTrip(t *testing.T, want Value) {
	t.Helper()
	value, err := want.encode(time.Unix(1, 0))
	if err != nil {
		t.Fatalf("encode %s: %v", want, err)
	}
	kv := &etcd.KV{Value: value, ModRevision: 5}
	if got := Decode(kv); got.Kind != protocol.StatusPresent || got.Status != want.Status || got.Warning != "" {
		t.Fatalf("got %+v, want %s", got, want)
	}
	if got := UnknownIn(kv); got != want.Unknown {
		t.Fatalf("got the unknown fields %q, want %q", got, want.Unknown)
	}
}
