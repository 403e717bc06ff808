package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// The rows of the case, for the largest number of prefixes.
const (
	rowManyGate  = "one etcd, the most prefixes: status written, until each gate of the prefix follows it"
	rowManyStart = "the same: a sidecar of the status's release starts, until its gate is open"
)

func manyRows() []string { return []string{rowManyGate, rowManyStart} }

// benchMany measures one etcd with the sidecars of more and more control planes, each
// with a prefix of its own. etcd is a process, and the sidecars are another one.
func benchMany(ctx context.Context, b *bench) error {
	var sizes []carried
	var held carried // the largest of which all was measured
	for word := range strings.SplitSeq(b.opts.prefixes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("-prefixes: %q is not a positive number", word)
		}
		progress("%d prefixes", n)
		c, err := b.carry(ctx, n)
		if err != nil {
			// More than this machine can hold is a result, beside the sizes that it held.
			b.report.fact(fmt.Sprintf("one etcd with %d prefixes", n), "not held: "+err.Error(), "held", false)
			break
		}
		sizes = append(sizes, c)
		if c.Problem != "" {
			b.report.fact(fmt.Sprintf("one etcd with %d prefixes", n), "not held: "+c.Problem, "held", false)
			break
		}
		held = c
	}
	if len(sizes) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	b.prints = append(b.prints, func(w io.Writer) { printMany(w, sizes) })
	if held.Prefixes == 0 {
		return nil
	}
	most := held
	b.report.measured(rowManyGate, bar{}, most.Gates)
	b.report.measured(rowManyStart, bar{}, most.Starts)
	b.compareMany(sizes[0], most)
	return nil
}

// lastLine returns the last line of a log, which explains why its program ended.
func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}

// carry measures one number of prefixes, with an etcd of its own.
func (b *bench) carry(ctx context.Context, n int) (out carried, err error) {
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		return carried{}, err
	}
	name := fmt.Sprintf("many-%d", n)
	outages, err := parseOutages(b.opts.outages)
	if err != nil {
		return carried{}, err
	}
	server, err := b.launchEtcd(name+"-etcd", name, addr)
	if err != nil {
		return carried{}, err
	}
	defer func() { err = errors.Join(err, server.end(syscall.SIGKILL)) }()
	if _, err := server.await(ctx, saysServes); err != nil {
		return carried{}, err
	}
	result := filepath.Join(b.dir, name+".json")
	load, err := b.launch(name, "many", "-etcd=http://"+addr, fmt.Sprintf("-prefixes=%d", n),
		"-dir="+b.dir, "-result="+result, "-idle="+b.opts.idle.String(), fmt.Sprintf("-upgrades=%d", b.opts.n), "-ttl="+b.opts.ttl.String(),
		fmt.Sprintf("-start-rate=%g", b.opts.startRate), "-outages="+b.opts.outages)
	if err != nil {
		return carried{}, err
	}
	defer func() { err = errors.Join(err, load.end(syscall.SIGKILL)) }()
	if server, err = b.keepEtcd(ctx, name, addr, server, load, outages); err != nil {
		return carried{}, err
	}
	data, err := os.ReadFile(result)
	if err != nil {
		text, _ := os.ReadFile(load.log.Name()) // only to explain
		return carried{}, fmt.Errorf("the sidecars ended: %s", lastLine(string(text)))
	}
	return out, json.Unmarshal(data, &out)
}

// notLinear is by how much more a prefix may cost beside many than beside few.
const notLinear = 1.1

// compareMany compares the cost of a prefix in the largest number with the smallest.
func (b *bench) compareMany(least, most carried) {
	if most.Prefixes <= least.Prefixes {
		return
	}
	for _, m := range manyMeasures() {
		if !m.grows {
			continue
		}
		each := func(c carried) float64 { return m.of(c) / float64(c.Prefixes) }
		factor := each(most) / each(least)
		b.report.fact(fmt.Sprintf("%s, for each of %d prefixes beside each of %d", m.name, most.Prefixes, least.Prefixes),
			fmt.Sprintf("x %.2f", factor), fmt.Sprintf("<= %g", notLinear), factor <= notLinear)
		more := (m.of(most) - m.of(least)) / float64(most.Prefixes-least.Prefixes)
		b.report.fact(m.name+", for each further prefix", m.show(more), "", true)
	}
}

// measure is one line of the table.
type measure struct {
	name  string
	of    func(carried) float64
	show  func(float64) string
	grows bool // it must grow with the number of prefixes, and no faster
}

// cell shows the measurement, or a dash if it was not made.
func (m measure) cell(c carried) string {
	if m.of(c) == 0 && c.Problem != "" {
		return "-"
	}
	return m.show(m.of(c))
}

// manyMeasures returns the lines of the table, in their order.
func manyMeasures() []measure {
	millis := func(p float64, times func(carried) []time.Duration) func(carried) float64 {
		return func(c carried) float64 { return percentile(times(c), p).Seconds() }
	}
	gates := func(c carried) []time.Duration { return c.Gates }
	starts := func(c carried) []time.Duration { return c.Starts }
	rolls := func(c carried) []time.Duration { return c.Upgrades }
	each := func(all func(carried) float64) func(carried) float64 {
		return func(c carried) float64 { return all(c) / float64(c.Sidecars) }
	}
	return []measure{
		{"idle: etcd, CPU", func(c carried) float64 { return c.Idle.EtcdCPU }, showCores, true},
		{"idle: requests a second", func(c carried) float64 { return c.Idle.all() }, showRate, true},
		{"idle: raft entries a second", func(c carried) float64 { return c.Idle.Entries }, showRate, false},
		{"etcd, resident memory", func(c carried) float64 { return c.Idle.Memory }, showBytes, true},
		{"etcd, watchers", func(c carried) float64 { return c.Idle.Watchers }, showCount, true},
		{"etcd, streams of watchers", func(c carried) float64 { return c.Idle.Streams }, showCount, true},
		{"one upgrade a second: etcd, CPU", func(c carried) float64 { return c.Busy.EtcdCPU }, showCores, false},
		{"one upgrade a second: requests a second", func(c carried) float64 { return c.Busy.all() }, showRate, false},
		{"one upgrade a second: raft entries a second", func(c carried) float64 { return c.Busy.Entries }, showRate, false},
		{"status to gate, p50", millis(50, gates), showTime, false},
		{"status to gate, p99", millis(99, gates), showTime, false},
		{"start to gate, p50", millis(50, starts), showTime, false},
		{"start to gate, p99", millis(99, starts), showTime, false},
		{"rolling upgrade of three nodes, p50", millis(50, rolls), showTime, false},
		{"all sidecars start, until all gates are open", func(c carried) float64 { return c.Began.Seconds() }, showTime, false},
		{"a sidecar: CPU while idle", each(func(c carried) float64 { return c.Idle.OwnCPU }), showCores, false},
		{"a sidecar: resident memory", each(func(c carried) float64 { return c.Resident }), showBytes, false},
		{"a sidecar: goroutines", each(func(c carried) float64 { return c.Goroutines }), showCount, false},
	}
}

func showCores(f float64) string { return fmt.Sprintf("%.3g %%", 100*f) }

func showRate(f float64) string { return fmt.Sprintf("%.1f", f) }

// showBytes prints less than ten megabytes in kilobytes.
func showBytes(f float64) string {
	if f < 1e7 {
		return fmt.Sprintf("%.0f kB", f/1e3)
	}
	return showMemory(f)
}

func showCount(f float64) string { return fmt.Sprintf("%.0f", f) }

func printMany(w io.Writer, sizes []carried) {
	header := []string{"control planes with three sidecars each, on one etcd"}
	for _, c := range sizes {
		header = append(header, strconv.Itoa(c.Prefixes))
	}
	table := [][]string{header}
	for _, m := range manyMeasures() {
		cells := []string{m.name}
		for _, c := range sizes {
			cells = append(cells, m.cell(c))
		}
		table = append(table, cells)
	}
	fmt.Fprintln(w)
	writeTable(w, table)
	printOutages(w, sizes)
	fmt.Fprintln(w)
	printMethods(w, sizes)
}

// printOutages prints the consequences of each kill of etcd.
func printOutages(w io.Writer, sizes []carried) {
	table := [][]string{{
		"kill -9 of etcd under all of them", "etcd is off for", "until all gates are confirmed again", "until all have a leader",
		"gates that closed", "etcd, CPU time", "requests of a sidecar", "of these, leases granted",
	}}
	for _, c := range sizes {
		for _, o := range c.Outages {
			each := func(n float64) string { return fmt.Sprintf("%.1f", n/float64(c.Sidecars)) }
			table = append(table, []string{
				strconv.Itoa(c.Prefixes), showTime(o.Down.Seconds()), showTime(o.Gates.Seconds()), showTime(o.Leaders.Seconds()),
				strconv.Itoa(o.Closed), showTime(o.CPU), each(o.all()), each(o.Requests["LeaseGrant"]),
			})
		}
	}
	if len(table) > 1 {
		fmt.Fprintln(w)
		writeTable(w, table)
	}
}

// printMethods prints the requests by method.
func printMethods(w io.Writer, sizes []carried) {
	most := sizes[len(sizes)-1]
	var methods []string
	for name, rate := range most.Busy.Requests {
		if rate > 0 {
			methods = append(methods, name)
		}
	}
	slices.Sort(methods)
	table := [][]string{{"requests a minute of a sidecar", fmt.Sprintf("idle, %d prefixes", most.Prefixes), "what an upgrade adds, in all"}}
	for _, name := range methods {
		idle, busy := most.Idle.Requests[name], most.Busy.Requests[name]
		table = append(table, []string{name, showRate(60 * idle / float64(most.Sidecars)), showRate(busy - idle)})
	}
	writeTable(w, table)
}
