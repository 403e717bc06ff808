package applyset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-dev/lockstep/protocol"
)

func release(major, minor, patch int64) protocol.Release {
	return protocol.Release{Major: major, Minor: minor, Patch: patch}
}

func content(r protocol.Release, epoch int64) protocol.Content {
	return protocol.Content{
		Release: r, Digest: "sha256:" + r.String(), Epoch: epoch,
		Constraints: protocol.Constraints{MinReconciler: release(0, 9, 0), MinAPIServer: release(1, 0, 0)},
	}
}

var emptyIsNil = cmpopts.EquateEmpty()

func TestMarkCodec(t *testing.T) {
	for _, want := range []MarkData{
		{},
		{LeaderEpoch: 5, Entries: []protocol.Content{content(release(1, 0, 0), 1)}},
		{FirstDone: true, LeaderEpoch: 1 << 60, Entries: []protocol.Content{content(release(1, 1, 0), 4), content(release(1, 0, 0), 7)}},
		{FirstDone: true, Entries: []protocol.Content{{Release: release(1, 0, 0), Bundle: "acme", Epoch: 1}}},
	} {
		text, err := encodeMark("", want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMark(text)
		got = got.named(want.Mark(0).Bundle()) // which is beside the mark
		if diff := cmp.Diff(want, got, emptyIsNil); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestDecodeMark_garbage(t *testing.T) {
	for _, text := range []string{
		"", "null garbage", "[]", `{"firstDone":true}`, `{"firstDone":"yes"}`,
		`{"entries":[{}]}`,
		`{"entries":[{"release":"1.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":1}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":0}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":-1}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":9223372036854775807}]}`,
	} {
		r, err := decodeMark(text)
		if err == nil {
			t.Errorf("%s: got %+v, want an error", text, r)
		}
	}
	if _, err := decodeMark(`{"firstDone":false,"newField":1,"entries":[]}`); err != nil {
		t.Errorf("got %v for a mark that a newer sidecar wrote", err)
	}
}

func TestMarkData(t *testing.T) {
	old, next := content(release(1, 0, 0), 1), content(release(1, 1, 0), 2)
	r := MarkData{FirstDone: true, LeaderEpoch: 3, Entries: []protocol.Content{old}}

	begun := r.Begun(protocol.Work{Content: next, LeaderEpoch: 9})
	if diff := cmp.Diff(MarkData{FirstDone: true, LeaderEpoch: 9, Entries: []protocol.Content{old, next}}, begun, emptyIsNil); diff != "" {
		t.Errorf("begun (-want +got):\n%s", diff)
	}
	if again := begun.Begun(protocol.Work{Content: next, LeaderEpoch: 9}); !again.SameContent(begun) {
		t.Errorf("got %+v, want no second entry", again)
	}
	if finished := Finished(next, 9); !finished.FirstDone || len(finished.Entries) != 1 || finished.Entries[0] != next {
		t.Errorf("got %+v, want the new content alone", finished)
	}
	if first := (MarkData{}).Begun(protocol.Work{Content: old, First: true}); first.FirstDone {
		t.Error("firstDone before the first pass is done")
	}
	if lost := (MarkData{}).Begun(protocol.Work{Content: old}); !lost.FirstDone {
		t.Error("a mark that was lost while there is a status does not say firstDone")
	}
	other := old
	other.Digest = "sha256:other"
	stamped := other
	stamped.Digest = ""
	if !r.EpochTaken(other) || r.EpochTaken(old) || (MarkData{Entries: []protocol.Content{stamped}}).EpochTaken(old) {
		t.Error("taken: want other content of the same epoch alone")
	}
	if len(r.Entries) != 1 {
		t.Error("a record was changed in place")
	}
}

func TestFromStamps(t *testing.T) {
	if got := fromStamps(nil); got.FirstDone || len(got.Entries) != 0 {
		t.Errorf("got %+v from nothing", got)
	}
	got := fromStamps([]Stamp{
		{Epoch: 4, Release: release(1, 0, 0), MinAPI: release(0, 9, 0)},
		{Epoch: 2, Release: release(1, 0, 0), MinAPI: release(1, 0, 0)},
		{Epoch: 7, Release: release(1, 1, 0), MinAPI: release(0, 8, 0)},
	})
	want := MarkData{FirstDone: true, Entries: []protocol.Content{
		{Release: release(1, 0, 0), Epoch: 4, Constraints: protocol.Constraints{MinAPIServer: release(1, 0, 0)}},
		{Release: release(1, 1, 0), Epoch: 7, Constraints: protocol.Constraints{MinAPIServer: release(0, 8, 0)}},
	}}
	if diff := cmp.Diff(want, got, emptyIsNil); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
