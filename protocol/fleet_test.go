package protocol

import "testing"

func TestSummarize(t *testing.T) {
	f := Fleet{Revision: 12, Records: []*Record{
		controller("a", "0.0.2"), controller("b", "10000.0.0"), controller("w", "0.0.1").worker(),
		controller("x", "0.0.1").corrupt("garbage"),
	}}
	got := Summarize(f, rel("0.0.3"))
	want := Summary{Min: rel("0.0.2"), Max: rel("10000.0.0"), Controllers: 2, Corrupt: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Summarize(Fleet{}, rel("0.0.3")); got.Min != rel("0.0.3") || got.Max != rel("0.0.3") {
		t.Errorf("the local release does not take part: %+v", got)
	}
}

func TestConstraints_Validate(t *testing.T) {
	own := rel("1.1.0")
	for _, c := range []Constraints{{}, {own, own}, {rel("1.0.0"), own}} {
		if err := c.Validate(own); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []Constraints{{MinReconciler: rel("1.1.1")}, {MinAPIServer: rel("2.0.0")}} {
		if err := c.Validate(own); err == nil {
			t.Errorf("%+v: want an error", c)
		}
	}
}
