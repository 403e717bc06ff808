package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// size holds the measurements for one number of objects.
type size struct {
	n     int
	took  [4]float64 // in seconds, by growthCases
	peak  float64    // memory of the process of the first apply
	heap  float64    // of the process that made all passes, and keeps the objects
	calls [4]int64   // requests, by growthCases
}

var growthCases = [4]string{"first apply", "take-over", "resync", "one changed"}

// benchGrowth measures Lockstep alone with more and more objects, each number with a
// kube-apiserver of its own.
func benchGrowth(ctx context.Context, b *bench) error {
	var sizes []size
	for word := range strings.SplitSeq(b.opts.sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 20 || n%20 != 0 {
			return fmt.Errorf("-sizes: %q is not a multiple of 20", word)
		}
		progress("%d objects", n)
		s, err := b.grow(ctx, n)
		if err != nil {
			return err
		}
		sizes = append(sizes, s)
	}
	b.compareGrowth(sizes)
	b.prints = append(b.prints, func(w io.Writer) { printGrowth(w, sizes) })
	return nil
}

// grow measures one number of objects. Passes are the median of some rounds.
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
	s, p, err := b.runTimed(ctx, "", passArgs(api.Kubeconfig()), passLine(first.dir, 1))
	if err != nil {
		return size{}, err
	}
	out := size{n: n, peak: float64(s.Peak)}
	out.took[0], out.calls[0] = p.Took.Seconds(), p.Requests
	r, err := b.startResident(ctx, api.Kubeconfig())
	if err != nil {
		return size{}, err
	}
	if p, err = r.pass(first.dir, 1); err != nil {
		return size{}, err
	}
	out.took[1], out.calls[1] = p.Took.Seconds(), p.Requests
	var again, other []float64
	for i := range b.opts.rounds {
		todo := []task{changed, first}[i%2]
		if p, err = r.pass(todo.dir, i+2); err != nil {
			return size{}, err
		}
		other, out.calls[3] = append(other, p.Took.Seconds()), p.Requests
		if p, err = r.pass(todo.dir, i+2); err != nil {
			return size{}, err
		}
		again, out.calls[2], out.heap = append(again, p.Took.Seconds()), p.Requests, float64(p.Heap)
	}
	out.took[2], out.took[3] = median(again), median(other)
	_, err = r.end()
	return out, errors.Join(err, api.Stop())
}

// compareGrowth compares the largest number of objects with 1,000.
func (b *bench) compareGrowth(sizes []size) {
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
		each := (most.took[i] - base.took[i]) / float64(most.n-base.n)
		b.report.fact(name+" for each further object", showTime(each), "", true)
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
		cells := []string{strconv.Itoa(s.n)}
		for i := range s.took {
			cells = append(cells, fmt.Sprintf("%s (%d requests)", showTime(s.took[i]), s.calls[i]))
		}
		table = append(table, append(cells, showMemory(s.peak), showMemory(s.heap)))
	}
	fmt.Fprintln(w)
	writeTable(w, table)
}
