package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// report collects measurements. Its methods may be called from many goroutines.
type report struct {
	mu    sync.Mutex // mu guards the fields below
	rows  []*row
	facts []fact
}

// newReport returns a report with empty rows, in the order of names.
func newReport(names ...string) *report {
	r := &report{}
	for _, name := range names {
		r.row(name)
	}
	return r
}

// row is one line of the table of times.
type row struct {
	name  string
	times []time.Duration
	bar   bar
	peers map[string][]time.Duration
}

// bar contains the times that a case must reach. A zero field requires nothing.
type bar struct {
	p50, p99, max time.Duration
	faster        map[string]float64 // how many times faster than a peer, by p50
}

// fact is a measurement that is not a time, with its bar.
type fact struct{ name, value, bar, met string }

// The names of the peers, which are the headings of their columns.
const (
	peerOrigin     = "etcd defaults"
	peerClientGo   = "client-go"
	peerController = "informer and apply"
	peerKeeper     = "bare watch and apply"
	peerNone       = "without Lockstep"
)

// peers returns the names of the peers that were measured.
func (r *report) peers() []string {
	return slices.DeleteFunc([]string{peerOrigin, peerClientGo, peerController, peerKeeper, peerNone}, func(name string) bool {
		return !slices.ContainsFunc(r.rows, func(m *row) bool { return len(m.peers[name]) > 0 })
	})
}

// row returns the row of that name, and adds it if there is none.
func (r *report) row(name string) *row {
	for _, known := range r.rows {
		if known.name == name {
			return known
		}
	}
	added := &row{name: name, peers: map[string][]time.Duration{}}
	r.rows = append(r.rows, added)
	return added
}

// measured adds the times of a case.
func (r *report) measured(name string, want bar, times []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.row(name)
	to.bar, to.times = want, append(to.times, times...)
}

// peer adds times of a peer.
func (r *report) peer(name, who string, times ...time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.row(name)
	to.peers[who] = append(to.peers[who], times...)
}

func (r *report) fact(name, value, want string, met bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts = append(r.facts, fact{name, value, want, yes(want != "", met)})
}

func (r *report) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	peers, header := r.peers(), []string{"case", "n", "p50", "p99", "max", "bar", "met"}
	for _, name := range peers {
		header = append(header, name+" p50", "ratio")
	}
	table := [][]string{header}
	for _, m := range r.rows {
		if len(m.times) > 0 || len(m.peers) > 0 {
			table = append(table, m.cells(peers))
		}
	}
	if len(table) > 1 {
		writeTable(w, table)
		fmt.Fprintln(w)
	}
	if len(r.facts) == 0 {
		return
	}
	table = [][]string{{"what", "measured", "bar", "met"}}
	for _, f := range r.facts {
		table = append(table, []string{f.name, f.value, orDash(f.bar), f.met})
	}
	writeTable(w, table)
}

func (r *row) cells(peers []string) []string {
	out := []string{r.name, fmt.Sprint(len(r.times)), "-", "-", "-", orDash(r.bar.String()), "-"}
	if len(r.times) > 0 {
		for i, p := range []float64{50, 99, 100} {
			out[2+i] = short(percentile(r.times, p))
		}
		out[6] = yes(r.bar.String() != "", r.met())
	}
	for _, name := range peers {
		times := r.peers[name]
		if len(times) == 0 {
			out = append(out, "-", "-")
			continue
		}
		cell := fmt.Sprintf("%s (n=%d)", short(percentile(times, 50)), len(times))
		out = append(out, cell, ratio(r.faster(name)))
	}
	return out
}

// faster returns how many times longer a peer takes, by the median.
func (r *row) faster(who string) float64 {
	if len(r.times) == 0 || len(r.peers[who]) == 0 {
		return math.NaN()
	}
	own := max(percentile(r.times, 50), time.Microsecond)
	return float64(percentile(r.peers[who], 50)) / float64(own)
}

func (r *row) met() bool {
	within := func(p float64, limit time.Duration) bool { return limit == 0 || percentile(r.times, p) < limit }
	ok := within(50, r.bar.p50) && within(99, r.bar.p99) && within(100, r.bar.max)
	for who, times := range r.bar.faster {
		if factor := r.faster(who); !math.IsNaN(factor) {
			ok = ok && factor >= times
		}
	}
	return ok
}

func (b bar) String() string {
	var out []string
	for _, part := range []struct {
		name  string
		limit time.Duration
	}{{"p50", b.p50}, {"p99", b.p99}, {"max", b.max}} {
		if part.limit != 0 {
			out = append(out, part.name+" < "+short(part.limit))
		}
	}
	for _, who := range []string{peerOrigin, peerClientGo, peerController, peerKeeper} {
		if factor := b.faster[who]; factor != 0 {
			out = append(out, fmt.Sprintf("%g x %s", factor, who))
		}
	}
	return strings.Join(out, ", ")
}

// percentile returns the smallest time that p percent of all do not exceed
// (nearest rank); 0 if there are none.
func percentile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// short prints a time with three digits at the most.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func ratio(f float64) string {
	switch {
	case math.IsNaN(f):
		return "-"
	case f < 1: // where the bars of what takes longer are
		return fmt.Sprintf("%.2f", f)
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// yes shows whether a bar was met.
func yes(hasBar, met bool) string {
	switch {
	case !hasBar:
		return "-"
	case met:
		return "yes"
	}
	return "NO"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// writeTable prints a table that is both Markdown and aligned.
func writeTable(w io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for i, cells := range lines {
		for j, cell := range cells {
			fmt.Fprintf(w, "| %-*s ", widths[j], cell)
		}
		fmt.Fprintln(w, "|")
		if i > 0 {
			continue
		}
		for _, width := range widths {
			fmt.Fprintf(w, "|-%s-", strings.Repeat("-", width))
		}
		fmt.Fprintln(w, "|")
	}
}
