package main

import (
	"strings"
	"testing"
)

func TestHeat(t *testing.T) {
	for _, c := range []struct {
		name string
		heat heat
		want bool
	}{
		{"twice as fast is required", heat{own: []float64{1, 2, 9}, took: map[string][]float64{"x": {4}}, bars: map[string]float64{"x": 2}}, true},
		{"and not reached", heat{own: []float64{1, 2, 9}, took: map[string][]float64{"x": {3.9}}, bars: map[string]float64{"x": 2}}, false},
		{"by one of two", heat{own: []float64{1}, took: map[string][]float64{"x": {3}, "y": {1}}, bars: map[string]float64{"x": 2, "y": 2}}, false},
		{"a peer that was not measured does not count", heat{own: []float64{1}, bars: map[string]float64{"x": 2}}, true},
		{"in pairs, the ratios count", heat{own: []float64{1, 9, 9}, took: map[string][]float64{"x": {2, 18, 1}}, bars: map[string]float64{"x": 2}, pairs: true}, true},
		{"and the median of them", heat{own: []float64{1, 1, 9}, took: map[string][]float64{"x": {1, 1, 90}}, bars: map[string]float64{"x": 2}, pairs: true}, false},
		{"a limit is not reached by equality", heat{own: []float64{1}, max: 1}, false},
	} {
		if got := c.heat.met(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPrintContest(t *testing.T) {
	c := contest{title: "work", columns: []string{"x"}}
	h := c.heat("a case", showTime)
	h.own, h.took["x"], h.bars["x"] = []float64{2, 1, 3}, []float64{3}, 2
	var out strings.Builder
	c.print(&out)
	if want := "| a case | 3 | 2 s (1 s to 3 s) | 3 s (3 s to 3 s) | 1.5   | 2 x x | NO  |"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant a line\n%s", out.String(), want)
	}
}
