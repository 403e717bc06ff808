package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// size is what was measured with some number of objects.
type size struct {
	n     int
	took  [4]float64 // growthCases
	peak  float64    // memory of the process of the first apply
	heap  float64    // of the one that has passed over all of them, and keeps them
	calls [4]int64   // requests
}

var growthCases = [4]string{"first apply", "take-over", "resync", "one changed"}

// benchGrowth measures Lockstep alone with ever more objects, each number with
// an apiserver of its own.
func benchGrowth(ctx context.Context, b *bench) error {
	var sizes []size
	for word := range strings.SplitSeq(b.opts.sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 20 || n%20 != 0 {
			return fmt.Errorf("-sizes: %q is no multiple of 20", word)
		}
		progress("%d objects", n)
		s, err := b.grow(ctx, n)
		if err != nil {
			return err
		}
		sizes = append(sizes, s)
	}
	b.judgeGrowth(sizes)
	b.prints = append(b.prints, func(w io.Writer) { printGrowth(w, sizes) })
	return nil
}

// grow measures one number of objects; the median of some rounds.
func (b *bench) grow(ctx context.Context, n int) (size, error) {
	name := fmt.Sprintf("growth-%d", n)
	api, err := b.startAPI(name)
	if err != nil {
		return size{}, err
	}
	first, changed, err := b.tasks(name, n)
	if err != nil {
		return size{}, err
	}
	s, p, err := b.runTimed(ctx, "", passArgs(api.Kubeconfig(), name), passLine(first.dir, 1))
	if err != nil {
		return size{}, err
	}
	out := size{n: n, peak: float64(s.Peak)}
	out.took[0], out.calls[0] = p.Took.Seconds(), p.Requests
	r, err := b.startResident(ctx, api.Kubeconfig(), name)
	if err != nil {
		return size{}, err
	}
	if p, err = r.pass(first.dir, 1); err != nil {
		return size{}, err
	}
	out.took[1], out.calls[1] = p.Took.Seconds(), p.Requests
	var again, other []float64
	for i := range b.opts.rounds {
		task := []task{changed, first}[i%2]
		if p, err = r.pass(task.dir, i+2); err != nil {
			return size{}, err
		}
		other, out.calls[3] = append(other, p.Took.Seconds()), p.Requests
		if p, err = r.pass(task.dir, i+2); err != nil {
			return size{}, err
		}
		again, out.calls[2], out.heap = append(again, p.Took.Seconds()), p.Requests, float64(p.Heap)
	}
	out.took[2], out.took[3] = median(again), median(other)
	_, err = r.end()
	return out, errors.Join(err, api.Stop())
}

// judgeGrowth compares the most objects with 1,000.
func (b *bench) judgeGrowth(sizes []size) {
	var base size
	for _, s := range sizes {
		if s.n == 1000 {
			base = s
		}
	}
	most := sizes[len(sizes)-1]
	if base.n == 0 || most.n <= base.n {
		return
	}
	linear := float64(most.n) / float64(base.n)
	for i, name := range growthCases {
		factor := most.took[i] / base.took[i]
		b.report.fact(fmt.Sprintf("%s: %d objects beside %d, times longer", name, most.n, base.n), ratio(factor), fmt.Sprintf("<= %g", linear), factor <= linear)
	}
	for _, m := range []struct {
		name       string
		most, base float64
	}{{"peak memory", most.peak, base.peak}, {"memory kept", most.heap, base.heap}} {
		per := (m.most - m.base) / float64(most.n-base.n)
		b.report.fact(m.name+" for each further object", fmt.Sprintf("%.1f kB", per/1e3), "", true)
	}
}

func printGrowth(w io.Writer, sizes []size) {
	table := [][]string{{"objects", "first apply", "take-over", "resync", "one changed", "peak memory, first apply", "kept"}}
	for _, s := range sizes {
		row := []string{strconv.Itoa(s.n)}
		for i := range s.took {
			row = append(row, fmt.Sprintf("%s (%d requests)", showTime(s.took[i]), s.calls[i]))
		}
		table = append(table, append(row, showMemory(s.peak), showMemory(s.heap)))
	}
	fmt.Fprintln(w)
	writeTable(w, table)
}
