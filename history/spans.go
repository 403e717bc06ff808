package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxSpans bounds the spans of an entry: it keeps the newest.
const maxSpans = 12

// Span is one of the times of a thing that ended and began again. Until is zero while it goes on.
type Span struct{ From, Until time.Time }

// MarshalJSON writes milliseconds, since a thousand entries must stay small: [from] or [from,until].
func (s Span) MarshalJSON() ([]byte, error) {
	if s.open() {
		return fmt.Appendf(nil, "[%d]", s.From.UnixMilli()), nil
	}
	return fmt.Appendf(nil, "[%d,%d]", s.From.UnixMilli(), s.Until.UnixMilli()), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Span) UnmarshalJSON(text []byte) error {
	*s = Span{}
	times := []*time.Time{&s.From, &s.Until}
	for i, one := range strings.SplitN(strings.Trim(string(text), "[]"), ",", len(times)) {
		var at int64
		if _, err := fmt.Sscan(one, &at); err != nil {
			return fmt.Errorf("span %s: %w", text, err)
		}
		*times[i] = time.UnixMilli(at).UTC()
	}
	return nil
}

func (s Span) open() bool { return s.Until.IsZero() }

// end is when the span ended; if it goes on, that is now.
func (s Span) end(now time.Time) time.Time {
	if s.open() {
		return now
	}
	return s.Until
}

// has reports whether the span includes a moment.
func (s Span) has(at time.Time) bool { return !at.Before(s.From) && (s.open() || !at.After(s.Until)) }

// beginAgain records that an entry that ended goes on from a moment. The slices of spans are never changed in place:
// a copy of the entry may be on its way to the store.
func (e *Entry) beginAgain(at time.Time) {
	if e.Count == 1 {
		e.Lasted, e.Spans = e.Until.Sub(e.Time), []Span{{e.Time, e.Until}}
	}
	e.Count++
	e.Until = time.Time{}
	e.addSpan(at)
}

func (e *Entry) addSpan(from time.Time) {
	e.Spans = append(slices.Clip(e.Spans), Span{From: from})
	e.Spans = e.Spans[max(0, len(e.Spans)-maxSpans):]
}

// endAt records the end of an entry.
func (e *Entry) endAt(at time.Time) {
	e.Until = at
	if e.Count < 2 {
		return
	}
	from := e.Time
	if last := len(e.Spans) - 1; last >= 0 && e.Spans[last].open() {
		if from = e.Spans[last].From; from.After(at) {
			from = at
		}
		e.Spans = slices.Clone(e.Spans)
		e.Spans[last] = Span{from, at}
	}
	e.Lasted += at.Sub(from)
}

// sinceSeen gives an open entry of an older program, which wrote no spans, one that begins when this sidecar saw it.
func (e *Entry) sinceSeen(at time.Time) {
	if e.Open() && e.Count > 1 && (len(e.Spans) == 0 || !e.Spans[len(e.Spans)-1].open()) {
		e.addSpan(at)
	}
}

// Total is for how long a thing that ended and began again lasted. Older programs wrote more than is possible.
func (e Entry) Total() time.Duration {
	if e.Open() {
		return e.Lasted
	}
	return min(e.Lasted, e.Until.Sub(e.Time))
}

// stretch is a part of the time of an entry. Partly: it lasted for some of it, and the entry does not say when.
type stretch struct {
	Span
	partly bool
}

// stretches returns the parts of the time of an entry in which it lasted, the newest last.
func (e Entry) stretches() []stretch {
	if e.Count <= 1 {
		return []stretch{{Span: e.whole()}}
	}
	var out []stretch
	if len(e.Spans) < e.Count {
		before := e.whole()
		if len(e.Spans) > 0 {
			before.Until = e.Spans[0].From
		}
		out = append(out, stretch{before, true})
	}
	for _, s := range e.Spans {
		out = append(out, stretch{Span: s})
	}
	return out
}
