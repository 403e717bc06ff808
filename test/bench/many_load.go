package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// carried holds the measurements with one number of prefixes.
type carried struct {
	Prefixes, Sidecars int

	Began      time.Duration // until all gates were open
	Idle, Busy phase

	// Of the process with the sidecars, while they were idle.
	Goroutines, Resident float64

	Outages []outage

	Gates, Starts, Upgrades []time.Duration

	// Problem says why this machine could not measure all with so many; empty: all was measured.
	Problem string
}

// loadFlags are the flags of the peer "many".
type loadFlags struct {
	etcd, dir, result  string
	outages            string
	prefixes, upgrades int
	startRate          float64
	idle, ttl          time.Duration
}

const (
	// settleTime passes before idle sidecars are measured: the work of their start is
	// over, and each made its regular requests more than once.
	settleTime = 25 * time.Second
	// upgradePause is the time between the starts of two upgrades.
	upgradePause = time.Second
	// stride is the distance of two control planes that are upgraded one after the other:
	// a prime, so that each of them is upgraded.
	stride = 7919
	// spareFiles are those that a process needs besides a connection for each sidecar.
	spareFiles = 1000
	// memoryPercent makes the garbage collector of the sidecars' process run rarely: it
	// would take the CPU that etcd needs. In reality the sidecars run elsewhere.
	memoryPercent = 400
	// memoryLimit (bytes) makes it run more often when the sidecars need that much: 6,000 of them would take all memory.
	memoryLimit = 12 << 30
)

// runMany is the peer "many": the sidecars of many control planes in one process. It
// measures them idle and with one upgrade a second, and writes the result to a file.
func runMany(ctx context.Context, args []string) error {
	var f loadFlags
	set := flag.NewFlagSet("many", flag.ExitOnError)
	set.StringVar(&f.etcd, "etcd", "", "")
	set.StringVar(&f.dir, "dir", "", "")
	set.StringVar(&f.result, "result", "", "")
	set.IntVar(&f.prefixes, "prefixes", 1, "")
	set.Float64Var(&f.startRate, "start-rate", 1, "")
	set.StringVar(&f.outages, "outages", "", "")
	set.IntVar(&f.upgrades, "upgrades", 100, "")
	set.DurationVar(&f.idle, "idle", time.Minute, "")
	set.DurationVar(&f.ttl, "ttl", 0, "")
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := enoughFiles(tenantNodes*f.prefixes + spareFiles); err != nil {
		return err
	}
	debug.SetGCPercent(memoryPercent)
	debug.SetMemoryLimit(memoryLimit)
	out := carried{Prefixes: f.prefixes, Sidecars: tenantNodes * f.prefixes}
	if err := f.measure(ctx, &out); err != nil {
		if ctx.Err() != nil {
			return err
		}
		out.Problem = err.Error()
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(f.result, data, 0o600)
}

// enoughFiles returns an error if this process, and the etcd with the same limit, may
// not open that many files. Go raises the limit to the highest that is allowed.
func enoughFiles(needed int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if uint64(limit.Max) < uint64(needed) {
		return fmt.Errorf("%d open files are allowed, and %d are needed: type `ulimit -Hn %d` as root, or use fewer -prefixes", limit.Max, needed, needed)
	}
	return nil
}

// measure writes its measurements to out, until something fails.
func (f loadFlags) measure(ctx context.Context, out *carried) error {
	began := time.Now()
	tenants, err := f.startTenants(ctx)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	out.Began = time.Since(began)
	pause(ctx, settleTime)
	debug.FreeOSMemory() // the memory that the start needed
	if out.Idle, err = f.during(ctx, func() error { pause(ctx, f.idle); return ctx.Err() }); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	out.Goroutines = float64(runtime.NumGoroutine())
	debug.FreeOSMemory() // a sidecar alone collects its garbage much earlier
	if out.Resident, err = residentMemory(); err != nil {
		return err
	}
	if out.Outages, err = f.endure(ctx, tenants); err != nil {
		return err
	}
	if out.Busy, err = f.during(ctx, func() error { return f.upgradeSome(ctx, tenants, out) }); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	return nil
}

func (f loadFlags) startTenants(ctx context.Context) ([]*tenant, error) {
	files := &bench{dir: f.dir}
	kubeconfig, err := files.unusedKubeconfig()
	if err != nil {
		return nil, err
	}
	bundles := &bundlesOf{write: func(release string) (string, error) {
		return files.writeBundle(bundleSpec{name: "many", release: release, minReconciler: release, objects: few("many", release)})
	}}
	group, groupCtx := errgroup.WithContext(ctx)
	if f.startRate <= 0 {
		return nil, fmt.Errorf("-start-rate: %g is not a positive number", f.startRate)
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / f.startRate))
	defer tick.Stop()
	var out []*tenant
	for i := range f.prefixes {
		t := &tenant{
			name: fmt.Sprintf("tenant-%04d", i), etcd: f.etcd, kubeconfig: kubeconfig, ttl: f.ttl,
			bundles: bundles.of, objects: newObjectless(),
		}
		out = append(out, t)
		group.Go(func() error { return t.start(ctx) })
		select {
		case <-tick.C:
		case <-groupCtx.Done():
			return nil, errors.Join(group.Wait(), ctx.Err())
		}
	}
	return out, group.Wait()
}

// bundlesOf keeps a bundle for each release. A bundle is written once: sidecars read it.
type bundlesOf struct {
	write func(release string) (dir string, err error)

	mu   sync.Mutex // mu guards dirs, and is held while a bundle is written
	dirs map[string]string
}

func (b *bundlesOf) of(release string) (dir string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir, found := b.dirs[release]; found {
		return dir, nil
	}
	if dir, err = b.write(release); err != nil {
		return "", err
	}
	if b.dirs == nil {
		b.dirs = map[string]string{}
	}
	b.dirs[release] = dir
	return dir, nil
}

// upgradeSome begins an upgrade each second, of one control plane after another.
func (f loadFlags) upgradeSome(ctx context.Context, tenants []*tenant, out *carried) error {
	group, groupCtx := errgroup.WithContext(ctx)
	var mu sync.Mutex // mu guards out
	tick := time.NewTicker(upgradePause)
	defer tick.Stop()
	for i := range f.upgrades {
		// Not neighbours: those started together, and make their regular requests together.
		t := tenants[i*stride%len(tenants)]
		group.Go(func() error {
			took, err := t.upgrade(ctx)
			mu.Lock()
			defer mu.Unlock()
			out.Gates, out.Starts = append(out.Gates, took.gates...), append(out.Starts, took.starts...)
			out.Upgrades = append(out.Upgrades, took.all)
			return err
		})
		select {
		case <-tick.C:
		case <-groupCtx.Done():
			return errors.Join(group.Wait(), ctx.Err())
		}
	}
	return group.Wait()
}

// during measures etcd and this process while do runs.
func (f loadFlags) during(ctx context.Context, do func() error) (phase, error) {
	before, err := readEtcd(ctx, f.etcd)
	if err != nil {
		return phase{}, err
	}
	own, err := ownCPU()
	if err != nil {
		return phase{}, err
	}
	if err := do(); err != nil {
		return phase{}, err
	}
	after, err := readEtcd(ctx, f.etcd)
	if err != nil {
		return phase{}, err
	}
	since, err := ownCPU()
	return phaseOf(before, after, since-own), err
}

// ownCPU returns the CPU time that this process used.
func ownCPU() (time.Duration, error) {
	var counted syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &counted); err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	return time.Duration(counted.Utime.Nano() + counted.Stime.Nano()), nil
}

// residentMemory returns the memory of this process, in bytes. The file exists only on Linux.
func residentMemory() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kilobytes * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmRSS")
}
