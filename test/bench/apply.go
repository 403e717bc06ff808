package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// applyCases returns the cases that measure how fast a bundle is applied.
func applyCases() []benchCase {
	return []benchCase{
		{group: "reconcile", name: "apply", run: benchApply},
		{group: "reconcile", name: "drift", run: benchDrift},
		{group: "reconcile", name: "growth", run: benchGrowth, extra: true},
	}
}

// bareWorkers are tried, to find the most that a kube-apiserver accepts.
var bareWorkers = []int{4, 8, 16, 32}

const (
	peerBare   = "bare apply"  // the best of them
	peerCreate = "bare create" // one POST for each object
	peerSame   = "same POSTs"  // those that Lockstep sends
	peerLists  = "bare lists"  // one for each kind
)

// The rows of the contest.
const (
	heatFirst   = "first apply, from the start of the process to its end"
	heatPass    = "first apply, the requests alone"
	heatPairs   = "the same, in turn with clients that send POSTs"
	heatAgain   = "no change: the first pass of a process (take-over)"
	heatResync  = "no change: a further pass (resync)"
	heatChanged = "one of 1,000 objects changed"
	heatMore    = "the same, beyond the pass without change"
	heatCPU     = "CPU time of the client, first apply"
	heatMemory  = "peak memory of the client, first apply"
)

// applyBench is shared by the rounds of the contest.
type applyBench struct {
	*bench
	api     *cluster.APIServer
	contest *contest
	posters int   // how many workers send POSTs, at their best
	written []int // objects written by passes for one change
	noop    []int // objects written by passes without change
	calls   []passed
}

// benchApply runs each tool on the same work, one tool after the other, round after
// round: a first apply of 1,000 objects, the same again, and again with one object
// changed.
func benchApply(ctx context.Context, b *bench) error {
	api, err := b.startAPI("apply")
	if err != nil {
		return err
	}
	a := &applyBench{
		bench: b, api: api,
		contest: &contest{title: "1,000 objects, each tool in turn", columns: []string{peerBare, peerCreate, peerSame, peerLists, "kubectl", "Flux", "Helm"}},
	}
	if err := a.warm(ctx); err != nil {
		return err
	}
	for round := range b.opts.rounds {
		progress("round %d", round+1)
		if err := a.round(ctx); err != nil {
			return err
		}
	}
	a.conclude()
	b.prints = append(b.prints, a.contest.print)
	return api.Stop()
}

// warm makes applies that are not counted: the first tool would otherwise pay for the
// initialization of the kube-apiserver. It keeps the POSTs of Lockstep, and finds the number
// of workers that send them fastest.
func (a *applyBench) warm(ctx context.Context) error {
	if err := a.other(ctx, bare(16)); err != nil {
		return err
	}
	a.contest.rows = nil
	first, _, err := a.tasks("lockstep", 1000)
	if err != nil {
		return err
	}
	args := append(passArgs(a.api.Kubeconfig()), "-posts="+a.posts())
	if _, _, err := a.runTimed(ctx, "", args, passLine(first.dir, 1)); err != nil {
		return err
	}
	if err := a.clean(ctx, registryOf("apply"), first.prefix); err != nil {
		return err
	}
	best := time.Hour.Seconds()
	for _, n := range bareWorkers {
		took, err := a.create(ctx, "lockstep", barePosts(n, a.posts()))
		if err != nil {
			return err
		}
		if took < best {
			best, a.posters = took, n
		}
	}
	return nil
}

// posts is the file with the POSTs of Lockstep's first apply.
func (a *applyBench) posts() string { return filepath.Join(a.dir, "posts.json") }

// round measures each tool once.
func (a *applyBench) round(ctx context.Context) error {
	if err := a.own(ctx); err != nil {
		return err
	}
	for i := range turnsOfPosts {
		if err := a.inTurn(ctx, i%2 == 1); err != nil {
			return err
		}
	}
	for _, n := range bareWorkers {
		if err := a.other(ctx, bare(n)); err != nil {
			return err
		}
	}
	if a.opts.peers == 0 {
		return nil
	}
	for _, t := range a.tools() {
		if _, err := os.Stat(filepath.Join(a.opts.assets, t.program)); err != nil {
			progress("%s is skipped: %v", t.name, err)
			continue
		}
		if err := a.other(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// own measures Lockstep: a first apply in a process of its own, then a process that
// takes over, makes further passes, and gets other bundles.
func (a *applyBench) own(ctx context.Context) error {
	first, changed, err := a.tasks("lockstep", 1000)
	if err != nil {
		return err
	}
	if err := a.clean(ctx, registryOf("apply"), first.prefix); err != nil {
		return err
	}
	s, p, err := a.runTimed(ctx, "", passArgs(a.api.Kubeconfig()), passLine(first.dir, 1))
	if err != nil {
		return err
	}
	a.add(heatFirst, "", s.Wall.Seconds())
	a.add(heatPass, "", p.Took.Seconds())
	a.add(heatCPU, "", s.CPU.Seconds())
	a.add(heatMemory, "", float64(s.Peak))
	a.calls = append(a.calls, p)
	if err := a.resident(ctx, first, changed); err != nil {
		return err
	}
	return a.clean(ctx, registryOf("apply"), first.prefix)
}

// changes is how often the process gets another bundle, with a pass without change
// after each. A kube-apiserver sometimes delays a list, so that a single
// measurement means little.
const changes = 6

// restOfLists is longer than the kube-apiserver delays a quorum list that follows another one, while etcd
// is written to. A resync in production follows none.
const restOfLists = 200 * time.Millisecond

// resident measures a process that starts after the first apply.
func (a *applyBench) resident(ctx context.Context, first, changed task) error {
	r, err := a.startResident(ctx, a.api.Kubeconfig())
	if err != nil {
		return err
	}
	before, err := a.revision(ctx)
	if err != nil {
		return err
	}
	pass := func(name, dir string, epoch int) (passed, error) {
		if name == heatResync {
			pause(ctx, restOfLists)
		}
		p, err := r.pass(dir, epoch)
		if err == nil {
			a.add(name, "", p.Took.Seconds())
		}
		return p, err
	}
	takeOver, err := pass(heatAgain, first.dir, 1)
	if err != nil {
		return err
	}
	again := func(dir string, epoch int) (passed, error) {
		p, err := pass(heatResync, dir, epoch)
		if err == nil {
			err = a.lists(ctx, first)
		}
		return p, err
	}
	resync, err := again(first.dir, 1)
	if err != nil {
		return err
	}
	n, err := a.writtenSince(ctx, registryOf("apply"), first.prefix, before)
	if err != nil {
		return err
	}
	a.noop = append(a.noop, n)
	var one passed
	for i := range changes {
		dir := []string{changed.dir, first.dir}[i%2]
		if one, err = pass(heatChanged, dir, i+2); err != nil {
			return err
		}
		p, err := again(dir, i+2)
		if err != nil {
			return err
		}
		a.add(heatMore, "", max(0, one.Took.Seconds()-p.Took.Seconds()))
	}
	a.calls = append(a.calls, takeOver, resync, one)
	if n, err = a.writtenSince(ctx, registryOf("apply"), first.prefix, before); err != nil {
		return err
	}
	a.written = append(a.written, n)
	_, err = r.end()
	return err
}

// lists measures one list for each kind, beside a resync.
func (a *applyBench) lists(ctx context.Context, t task) error {
	_, p, err := a.runTimed(ctx, "", a.bareLists(a.api.Kubeconfig(), t), "")
	a.add(heatResync, peerLists, p.Took.Seconds())
	return err
}

// other measures a peer.
func (a *applyBench) other(ctx context.Context, t tool) error {
	name, _, _ := strings.Cut(strings.ToLower(t.name), ",")
	first, changed, err := a.tasks(name, 1000)
	if err != nil {
		return err
	}
	registry := registryOf("apply")
	if err := a.clean(ctx, registry, first.prefix); err != nil {
		return err
	}
	var took []passed
	for i, todo := range []task{first, first, changed} {
		s, p, err := a.runTimed(ctx, t.program, t.args(a.api.Kubeconfig(), todo), "")
		if err != nil {
			return err
		}
		took = append(took, p)
		if i > 0 {
			continue
		}
		n, err := a.writtenSince(ctx, registry, first.prefix, 0)
		if err != nil {
			return err
		}
		if n != 1000 {
			return fmt.Errorf("%s made %d objects of 1000", t.name, n)
		}
		a.add(heatFirst, t.name, s.Wall.Seconds())
		a.add(heatCPU, t.name, s.CPU.Seconds())
		a.add(heatMemory, t.name, float64(s.Peak))
	}
	a.add(heatPass, t.name, took[0].Took.Seconds())
	a.add(heatAgain, t.name, took[1].Took.Seconds())
	a.add(heatResync, t.name, took[1].Took.Seconds())
	a.add(heatChanged, t.name, took[2].Took.Seconds())
	return a.clean(ctx, registry, first.prefix)
}

// add adds a value of a tool; of Lockstep if who is empty.
func (a *applyBench) add(name, who string, value float64) {
	show := showTime
	if name == heatMemory {
		show = showMemory
	}
	h := a.contest.heat(name, show)
	if who == "" {
		h.own = append(h.own, value)
		return
	}
	h.took[who] = append(h.took[who], value)
}

// conclude chooses the best of the bare patches in each row, and sets the bars.
func (a *applyBench) conclude() {
	for _, h := range a.contest.rows {
		for _, n := range bareWorkers {
			h.better(peerBare, bareName(n))
		}
		switch h.name {
		case heatFirst:
			h.bars = map[string]float64{"kubectl": 2.5, "Flux": 1, "Helm": 1}
		case heatPass:
			h.bars = map[string]float64{peerBare: 0.85}
			for _, name := range []string{"kubectl", "Helm"} { // their times include the start
				delete(h.took, name)
			}
		case heatPairs:
			h.pairs, h.bars = true, map[string]float64{peerSame: 0.77} // 1.3 times as long
		case heatAgain, heatResync:
			h.bars = map[string]float64{"kubectl": 10, "Flux": 10, "Helm": 10}
			if h.name == heatResync {
				h.pairs, h.bars[peerLists] = true, 0.5 // twice as long
			}
		case heatMore:
			h.max = 0.05
		case heatCPU, heatMemory:
			h.bars = map[string]float64{"kubectl": 1}
		}
		if a.opts.peers == 0 && h.bars[peerBare] == 0 && h.name != heatResync && h.name != heatPairs {
			h.bars = nil
		}
	}
	a.facts()
}

func (a *applyBench) facts() {
	for _, n := range bareWorkers {
		first, again := a.contest.heat(heatPass, showTime), a.contest.heat(heatAgain, showTime)
		name := bareName(n)
		a.report.fact(name+": first apply; no change", first.cell(first.took[name])+"; "+again.cell(again.took[name]), "", true)
	}
	most := func(counts []int) int {
		out := 0
		for _, n := range counts {
			out = max(out, n)
		}
		return out
	}
	a.report.fact("objects written by passes without change", fmt.Sprint(most(a.noop)), "0", most(a.noop) == 0)
	a.report.fact("objects written when one of 1,000 changed", fmt.Sprint(most(a.written)), "1", most(a.written) == 1)
	for i, name := range []string{"first apply", "take-over", "resync", "one changed"} {
		p := a.calls[i]
		a.report.fact("requests, "+name, fmt.Sprintf("%d, of which %d write", p.Requests, p.Writes), "", true)
	}
	a.report.fact("to load the bundle of 1,000 objects", short(a.calls[0].Load), "", true)
}

// better takes the values of one who did the work in some way, if they are the best of a peer.
func (h *heat) better(name, way string) {
	values, best := h.took[way], h.took[name]
	if len(values) > 0 && (len(best) == 0 || median(values) < median(best)) {
		h.took[name] = values
	}
}

// tasks writes the two bundles of a tool, and charts with the same objects.
func (b *bench) tasks(name string, n int) (first, changed task, err error) {
	objects := mix(name, n)
	if first, err = b.task(name, "1.0.0", objects); err != nil {
		return first, changed, err
	}
	changed, err = b.task(name, "1.0.1", lastChanged(name, objects))
	return first, changed, err
}

func (b *bench) task(name, release string, objects []string) (task, error) {
	dir, err := b.writeBundle(bundleSpec{name: name, release: release, objects: objects})
	if err != nil {
		return task{}, err
	}
	t := task{prefix: name, dir: dir, file: filepath.Join(dir, objectsFile), chart: filepath.Join(b.dir, "charts", name+"-"+release)}
	if err := os.MkdirAll(filepath.Join(t.chart, "templates"), 0o700); err != nil {
		return task{}, err
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return task{}, err
	}
	chart := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, release)
	return t, errors.Join(
		os.WriteFile(filepath.Join(t.chart, "Chart.yaml"), []byte(chart), 0o600),
		os.WriteFile(filepath.Join(t.chart, "templates", "objects.yaml"), text, 0o600),
	)
}
