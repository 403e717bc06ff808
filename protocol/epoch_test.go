package protocol

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// boundaries are content epochs at every bound, as people may write them by hand.
var boundaries = []int64{
	math.MinInt64, -1, 0, 1, 2, 5, MaxEpochGap - 1, MaxEpochGap, MaxEpochGap + 1, MaxEpochGap + 5, MaxEpochGap + 6,
	MaxContentEpoch - 1, MaxContentEpoch, MaxContentEpoch + 1, 1 << 53, math.MaxInt64,
}

func TestCredibleEpoch(t *testing.T) {
	for _, tc := range []struct {
		status, mark, want, next int64
		garbage                  string
	}{
		{0, 0, 0, 1, ""},
		{4, 0, 4, 5, ""},
		{0, 4, 4, 5, ""},
		{4, 6, 6, 7, ""},
		{6, 4, 6, 7, ""},
		{1, 1 + MaxEpochGap, 1 + MaxEpochGap, 2 + MaxEpochGap, ""},
		{1, 2 + MaxEpochGap, 1, 2, "in the mark"},
		{2 + MaxEpochGap, 1, 1, 2, "in the status"},
		{MaxContentEpoch, 5, 5, 6, "in the status"},
		{MaxContentEpoch, MaxContentEpoch, MaxContentEpoch, 1, ""},
		{MaxContentEpoch - 1, 0, MaxContentEpoch - 1, MaxContentEpoch, ""},
		{MaxContentEpoch, MaxContentEpoch + 1, MaxContentEpoch + 1, 1, ""}, // other content has the highest
		{1, MaxContentEpoch, 1, 2, "in the mark"},
	} {
		credible := credibleEpoch(tc.status, tc.mark)
		if next := nextEpoch(credible); credible != tc.want || next != tc.next {
			t.Errorf("status %d, mark %d: got %d, then %d; want %d, then %d", tc.status, tc.mark, credible, next, tc.want, tc.next)
		}
		garbage := GarbageEpoch(tc.status, tc.mark)
		if garbage == "" != (tc.garbage == "") || !strings.Contains(garbage, tc.garbage+" is not credible") && garbage != "" {
			t.Errorf("status %d, mark %d: got %q, want it about the one %q", tc.status, tc.mark, garbage, tc.garbage)
		}
	}
}

// epochs is a status and a mark, and a leader that works on them. Passes are as
// docs/protocol.md#content-epoch describes them.
type epochs struct {
	t    *testing.T
	in   Input
	mark Mark // in the API; Kind is MarkAbsent where it is damaged
}

// TestNext_numbersByHand: whatever number people write into the status and into
// the mark, the leader reaches DONE, with a number that can be written and that the
// mark has, and so does the next upgrade.
func TestNext_numbersByHand(t *testing.T) {
	for _, status := range boundaries {
		for _, mark := range boundaries {
			for _, same := range []bool{true, false} {
				t.Run(fmt.Sprintf("status %d mark %d same content %t", status, mark, same), func(t *testing.T) {
					s := targetStatus()
					if !same {
						s = doneStatus("1.0.0")
					}
					s.ContentEpoch = status
					if !IsContentEpoch(status) {
						s.ContentEpoch = 0 // as it is decoded
					}
					w := &epochs{t: t, in: given(presentStatus(s)), mark: Mark{Kind: MarkAbsent}}
					if IsContentEpoch(mark) {
						c := Content{Release: s.ContentRelease, Digest: s.Digest, Epoch: mark}
						w.mark = Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{c}, HighestEpoch: mark}
					}
					w.settle()
					apart := max(status, mark) - min(status, mark)
					if IsContentEpoch(status) && IsContentEpoch(mark) && (apart < MaxEpochGap-1 || apart > MaxEpochGap+1) {
						if got, want := w.mark.HighestEpoch, credibleEpoch(status, mark); got != want && got != nextEpoch(want) {
							t.Errorf("got content epoch %d, want %d or the next", got, want)
						}
					}
					w.in.Local.Version, w.in.Local.Digest = ver("1.2.0"), "d1.2"
					w.in.Fleet.Records[0].Node.Version = ver("1.2.0")
					w.settle()
				})
			}
		}
	}
}

// settle lets the leader work until it keeps its target.
func (w *epochs) settle() {
	w.t.Helper()
	var story []string
	for range 12 {
		step := Next(w.in)
		story = append(story, step.String())
		switch step.Kind {
		case StepHold:
			s := w.in.Status.Status
			if s.State != Done || s.Digest != w.in.Local.Digest || !IsContentEpoch(s.ContentEpoch) || w.mark.HighestEpoch != s.ContentEpoch {
				w.t.Fatalf("got %s with the mark %+v\n%s", s, w.mark, strings.Join(story, "\n"))
			}
			return
		case StepWrite:
			w.in.Status.Status = step.Status
			if n := step.Status.ContentEpoch; n != 0 && !IsContentEpoch(n) {
				w.t.Fatalf("content epoch %d is written", n)
			}
		case StepSurvey:
			w.in.Mark = w.survey(step.Work)
		case StepReconcile:
			out := w.pass(step.Work)
			w.in.Mark = w.in.Mark.With(step.Work.Content).After(step.Work.Content, out)
			if out.Complete {
				w.in.Progress.Finished = step.Work.Content
			}
		default:
			w.t.Fatalf("unexpected step\n%s", strings.Join(story, "\n"))
		}
	}
	w.t.Fatalf("the leader is not done after 12 steps:\n%s", strings.Join(story, "\n"))
}

func (w *epochs) survey(work Work) Mark {
	if w.mark.Kind == MarkAbsent {
		return Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{work.FallbackEntry}, HighestEpoch: work.FallbackEntry.Epoch}
	}
	return w.mark
}

func (w *epochs) pass(work Work) Outcome {
	highest := w.mark.HighestEpoch
	switch {
	case w.mark.Kind == MarkAbsent || work.MarkTooHigh(highest):
		highest = work.FallbackEntry.Epoch
	case work.EpochTooHigh(highest):
		return Outcome{Unfounded: true, HighestEpoch: highest}
	}
	if highest > work.Content.Epoch {
		return Outcome{HighestEpoch: highest}
	}
	if !IsContentEpoch(work.Content.Epoch) {
		w.t.Fatalf("a pass at content epoch %d", work.Content.Epoch)
	}
	w.mark = Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{work.Content}, HighestEpoch: work.Content.Epoch}
	return Outcome{Complete: true, HighestEpoch: work.Content.Epoch}
}
