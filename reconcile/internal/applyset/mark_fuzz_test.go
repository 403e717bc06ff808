package applyset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/protocol"
)

// FuzzMark: whatever is in the mark and in the status, the leader's next steps
// lead to a mark that can be written and read.
func FuzzMark(f *testing.F) {
	for _, epoch := range []string{"1", "0", "-1", "1048577", "4503599627370495", "4503599627370496", "4503599627370497", "9223372036854775807"} {
		f.Add(`{"firstDone":true,"leaderEpoch":7,"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","digest":"d","contentEpoch":`+epoch+`}]}`, int64(5))
	}
	f.Add(`{"firstDone":false,"leaderEpoch":-7,"entries":[]}`, int64(0))
	f.Add(`null`, int64(protocol.MaxContentEpoch))
	f.Add(`{"firstDone":true,"FIRSTDONE":true,"x":{"y":[1]},"entries":[{"release":"1.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","contentEpoch":1,"z":null}]}`, int64(1))
	f.Fuzz(func(t *testing.T, text string, status int64) {
		p := Parent{}
		if mark, err := decodeMark(text); err == nil {
			wantMarkRoundTrip(t, text, mark)
			p.Mark, p.Known = mark, true
		}
		if status != 0 && !protocol.IsContentEpoch(status) {
			status = 0 // as it is decoded
		}
		in := protocol.Input{
			Local: protocol.Local{ID: "me", Version: protocol.Version{Release: release(1, 1, 0)}, Digest: "new", Epoch: 9},
			Status: protocol.StatusView{Kind: protocol.StatusPresent, Revision: 1, Status: protocol.Status{
				State: protocol.Done, Version: protocol.Version{Release: release(1, 0, 0)}, ContentRelease: release(1, 0, 0), Digest: "d", ContentEpoch: status,
			}},
		}
		step := protocol.Next(in)
		if step.Kind == protocol.StepSurvey {
			in.Mark = p.Effective(nil, step.Work).Mark(0)
			step = protocol.Next(in)
		}
		if step.Kind != protocol.StepWrite || !protocol.IsContentEpoch(step.Status.ContentEpoch) {
			t.Fatalf("got %s", step)
		}
		in.Status.Status = step.Status
		if step = protocol.Next(in); step.Kind != protocol.StepReconcile {
			t.Fatalf("got %s", step)
		}
		now, _ := p.For(step.Work)
		if highest := now.Effective(nil, step.Work).HighestEpoch(); highest > step.Work.Content.Epoch || step.Work.EpochTooHigh(highest) {
			t.Fatalf("the pass at %d finds %d", step.Work.Content.Epoch, highest)
		}
		wantMarkRoundTrip(t, text, now.Effective(nil, step.Work).Begun(step.Work))
		wantMarkRoundTrip(t, text, Finished(step.Work.Content, 9))
	})
}

func wantMarkRoundTrip(t *testing.T, previous string, m MarkData) {
	t.Helper()
	text, err := encodeMark(previous, m)
	if err != nil {
		t.Fatalf("encode %+v: %v", m, err)
	}
	got, err := decodeMark(text)
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	m.Entries = sortedEntries(m.Entries)
	if diff := cmp.Diff(m, got, emptyIsNil); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", text, diff)
	}
}

func TestEncodeMark_refused(t *testing.T) {
	for _, epoch := range []int64{-1, 0, protocol.MaxContentEpoch + 1, 1<<63 - 1} {
		if text, err := encodeMark("", MarkData{Entries: []protocol.Content{content(release(1, 0, 0), epoch)}}); err == nil {
			t.Errorf("content epoch %d: got %s, want an error", epoch, text)
		}
	}
	if text, err := encodeMark("", MarkData{FirstDone: true}); err == nil {
		t.Errorf("no entry: got %s, want an error", text)
	}
}
