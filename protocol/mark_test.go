package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMark_With(t *testing.T) {
	a, b := contentOf("1.0.0", "1.0.0", 1), contentOf("1.1.0", "1.0.0", 2)
	if got := (Mark{}).With(a); got.Kind != MarkUnknown {
		t.Errorf("an unknown mark became known: %+v", got)
	}
	one := Mark{Kind: MarkAbsent}.With(a)
	if diff := cmp.Diff(Mark{Kind: MarkPresent, Entries: []Content{a}, HighestEpoch: 1}, one); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	two := one.With(b).With(a)
	if diff := cmp.Diff([]Content{a, b}, two.Entries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(one.Entries) != 1 {
		t.Error("With changed its receiver")
	}
}

func TestMark_After(t *testing.T) {
	a, b := contentOf("1.0.0", "1.0.0", 1), contentOf("1.1.0", "1.0.0", 2)
	m := Mark{Kind: MarkPresent, Entries: []Content{a, b}, HighestEpoch: 2}
	if got := m.After(b, Outcome{HighestEpoch: 5}); got.FirstDone || len(got.Entries) != 2 || got.HighestEpoch != 5 {
		t.Errorf("an incomplete pass: got %+v", got)
	}
	want := Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{b}, HighestEpoch: 2}
	if diff := cmp.Diff(want, m.After(b, Outcome{Complete: true})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
