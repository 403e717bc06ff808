package reconcile

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func release(major, minor, patch int64) protocol.Release {
	return protocol.Release{Major: major, Minor: minor, Patch: patch}
}

func content(r protocol.Release, epoch int64) protocol.Content {
	return protocol.Content{
		Release: r, Digest: "sha256:" + r.String(), Epoch: epoch,
		Constraints: protocol.Constraints{MinReconciler: release(0, 9, 0), MinApiserver: release(1, 0, 0)},
	}
}

var ofRecord = cmp.Options{cmp.AllowUnexported(record{}), cmpopts.EquateEmpty()}

func TestMarkCodec(t *testing.T) {
	for _, want := range []record{
		{},
		{leaderEpoch: 5, entries: []protocol.Content{content(release(1, 0, 0), 1)}},
		{firstDone: true, leaderEpoch: 1 << 60, entries: []protocol.Content{content(release(1, 1, 0), 4), content(release(1, 0, 0), 7)}},
	} {
		text, err := encodeMark(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMark(text)
		if diff := cmp.Diff(want, got, ofRecord); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestDecodeMarkGarbage(t *testing.T) {
	for _, text := range []string{
		"", "null garbage", "[]", `{"firstDone":true}`, `{"firstDone":"yes"}`,
		`{"entries":[{}]}`,
		`{"entries":[{"release":"1.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":1}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":0}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":-1}]}`,
		`{"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":9223372036854775807}]}`,
	} {
		r, err := decodeMark(text)
		if _, ok := errors.AsType[*MarkError](err); !ok {
			t.Errorf("%s: got %+v, %v, want a MarkError", text, r, err)
		}
	}
	if _, err := decodeMark(`{"firstDone":false,"newField":1,"entries":[]}`); err != nil {
		t.Errorf("got %v for a mark that a newer sidecar wrote", err)
	}
}

func TestRecord(t *testing.T) {
	old, next := content(release(1, 0, 0), 1), content(release(1, 1, 0), 2)
	r := record{firstDone: true, leaderEpoch: 3, entries: []protocol.Content{old}}

	begun := r.begun(protocol.Work{Content: next, LeaderEpoch: 9})
	if diff := cmp.Diff(record{firstDone: true, leaderEpoch: 9, entries: []protocol.Content{old, next}}, begun, ofRecord); diff != "" {
		t.Errorf("begun (-want +got):\n%s", diff)
	}
	if again := begun.begun(protocol.Work{Content: next, LeaderEpoch: 9}); !again.sameContent(begun) {
		t.Errorf("got %+v, want no second entry", again)
	}
	if finished := begun.finished(next, 9); !finished.firstDone || len(finished.entries) != 1 || finished.entries[0] != next {
		t.Errorf("got %+v, want the new content alone", finished)
	}
	if first := (record{}).begun(protocol.Work{Content: old, First: true}); first.firstDone {
		t.Error("firstDone before the first pass is done")
	}
	if lost := (record{}).begun(protocol.Work{Content: old}); !lost.firstDone {
		t.Error("a mark that was lost while there is a status does not say firstDone")
	}
	other := old
	other.Digest = "sha256:other"
	stamped := other
	stamped.Digest = ""
	if !r.taken(other) || r.taken(old) || (record{entries: []protocol.Content{stamped}}).taken(old) {
		t.Error("taken: want other content of the same epoch alone")
	}
	if len(r.entries) != 1 {
		t.Error("a record was changed in place")
	}
}

func TestFromStamps(t *testing.T) {
	if got := fromStamps(nil); got.firstDone || len(got.entries) != 0 {
		t.Errorf("got %+v from nothing", got)
	}
	got := fromStamps([]stamp{
		{epoch: 4, release: release(1, 0, 0), minAPI: release(0, 9, 0)},
		{epoch: 2, release: release(1, 0, 0), minAPI: release(1, 0, 0)},
		{epoch: 7, release: release(1, 1, 0), minAPI: release(0, 8, 0)},
	})
	want := record{firstDone: true, entries: []protocol.Content{
		{Release: release(1, 0, 0), Epoch: 4, Constraints: protocol.Constraints{MinApiserver: release(1, 0, 0)}},
		{Release: release(1, 1, 0), Epoch: 7, Constraints: protocol.Constraints{MinApiserver: release(0, 8, 0)}},
	}}
	if diff := cmp.Diff(want, got, ofRecord); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadStamp(t *testing.T) {
	good := map[string]string{bundle.AnnotationContentEpoch: "5", bundle.AnnotationRelease: "1.2.3", bundle.AnnotationMinAPIServerRelease: "1.0.0"}
	if s, ok := readStamp(good); !ok || s != (stamp{epoch: 5, release: release(1, 2, 3), minAPI: release(1, 0, 0)}) {
		t.Errorf("got %+v, %t", s, ok)
	}
	for _, epoch := range []string{"", "0", "-1", "1.5", "9007199254740993", "99999999999999999999", "five", "0x5"} {
		if n, ok := parseEpoch(epoch); ok {
			t.Errorf("epoch %q: got %d, want it to be garbage", epoch, n)
		}
	}
	if s, ok := readStamp(map[string]string{bundle.AnnotationContentEpoch: "5", bundle.AnnotationRelease: "1.2"}); ok || s.epoch != 5 {
		t.Errorf("got %+v, %t, want half a stamp", s, ok)
	}
}
