package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// contest is a table of several tools that did the same work, one after the other.
// Less is better in every row.
type contest struct {
	title   string
	columns []string // the peers, in order
	rows    []*heat
}

// heat is one row of a contest.
type heat struct {
	name string
	show func(float64) string
	own  []float64
	took map[string][]float64 // by peer
	bars map[string]float64   // by peer: its median must be this many times ours
	max  float64              // our median must be below it; zero: no bar
	// pairs: the i-th value of a peer that has as many was measured right after or before the i-th of ours, so
	// the ratio of each pair counts.
	pairs bool
}

// heat returns the row of that name, and adds it if there is none.
func (c *contest) heat(name string, show func(float64) string) *heat {
	for _, known := range c.rows {
		if known.name == name {
			return known
		}
	}
	added := &heat{name: name, show: show, took: map[string][]float64{}, bars: map[string]float64{}}
	c.rows = append(c.rows, added)
	return added
}

func (c *contest) print(w io.Writer) {
	if len(c.rows) == 0 {
		return
	}
	header := []string{c.title, "n", "Lockstep"}
	for _, name := range c.columns {
		header = append(header, name, "ratio")
	}
	table := [][]string{append(header, "bar", "met")}
	for _, h := range c.rows {
		table = append(table, h.cells(c.columns))
	}
	fmt.Fprintln(w)
	writeTable(w, table)
}

func (h *heat) cells(columns []string) []string {
	out := []string{h.name, fmt.Sprint(len(h.own)), h.cell(h.own)}
	for _, name := range columns {
		out = append(out, h.cell(h.took[name]), ratio(h.ratio(name)))
	}
	return append(out, orDash(h.bar()), yes(h.bar() != "", h.met()))
}

// cell shows the median, the minimum and the maximum.
func (h *heat) cell(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", h.show(median(values)), h.show(slices.Min(values)), h.show(slices.Max(values)))
}

// ratio returns how many times as much as Lockstep a peer took, by the median.
func (h *heat) ratio(name string) float64 {
	if len(h.own) == 0 || len(h.took[name]) == 0 {
		return math.NaN()
	}
	if h.pairs && len(h.took[name]) == len(h.own) {
		var each []float64
		for i, took := range h.took[name] {
			each = append(each, took/h.own[i])
		}
		return median(each)
	}
	return median(h.took[name]) / median(h.own)
}

func (h *heat) bar() string {
	var out []string
	if h.max != 0 {
		out = append(out, "< "+h.show(h.max))
	}
	for _, name := range slices.Sorted(maps.Keys(h.bars)) {
		out = append(out, fmt.Sprintf("%g x %s", h.bars[name], name))
	}
	return strings.Join(out, ", ")
}

// met reports whether the bars are met. A peer that was not measured does not
// count.
func (h *heat) met() bool {
	ok := h.max == 0 || median(h.own) < h.max
	for name, times := range h.bars {
		if factor := h.ratio(name); !math.IsNaN(factor) {
			ok = ok && factor >= times
		}
	}
	return ok
}

// median returns the middle value, the lower of two; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

func showTime(seconds float64) string { return short(time.Duration(seconds * float64(time.Second))) }

func showMemory(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }
