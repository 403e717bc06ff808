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

const (
	// tracingSidecar is the sidecar that LOCKSTEP_UNRECORDED keeps from recording; `make bench` builds it for this case.
	tracingSidecar = "trace/sidecar"
	// recorderPairs is how many sidecars run with the flight recorder, and how many without: two idle processes of
	// the same program differ by more than a recorder takes.
	recorderPairs = 5
)

// idleSidecar is a sidecar of this comparison.
type idleSidecar struct {
	*cluster.Sidecar
	records bool    // with the flight recorder
	memory  float64 // resident, in bytes
}

// benchRecorder compares the resident memory of idle sidecars with the flight recorder and without.
func benchRecorder(ctx context.Context, b *bench) (err error) {
	dir, err := b.writeBundle(bundleSpec{name: "recorder", release: "1.0.0", objects: few("recorder", "one")})
	if err != nil {
		return err
	}
	api, err := b.startAPI("recorder")
	if err != nil {
		return err
	}
	cfg := cluster.Config{
		Assets: b.opts.assets, Dir: filepath.Join(b.dir, "recorder"), LogDir: b.opts.logs,
		SidecarBinary: filepath.Join(b.opts.assets, tracingSidecar),
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	other, err := cluster.Attach(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close(), api.Stop()) }()
	var all []*idleSidecar
	for i := range 1 + 2*recorderPairs { // the first leads
		one := &idleSidecar{records: i%2 == 0}
		var env []string
		if !one.records {
			env = []string{"LOCKSTEP_UNRECORDED=1"}
		}
		if one.Sidecar, err = other.StartSidecar(cluster.SidecarConfig{
			NodeID: fmt.Sprintf("recorder-%d", i), Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf("recorder"),
			EtcdServers: b.cluster.Endpoints(), Env: env,
		}); err != nil {
			return err
		}
		if err := cluster.Poll(ctx, one.Readyz); err != nil {
			return err
		}
		all = append(all, one)
	}
	pause(ctx, b.opts.idle)
	return b.compareRecorders(ctx, all[1:])
}

func (b *bench) compareRecorders(ctx context.Context, all []*idleSidecar) error {
	memory, steps := map[bool][]float64{}, map[bool]int{}
	for _, one := range all {
		_, text, err := one.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		if one.memory, err = metric(text, "process_resident_memory_bytes"); err != nil {
			return err
		}
		_, recording, err := one.Get(ctx, "/debug/recording")
		if err != nil {
			return err
		}
		memory[one.records] = append(memory[one.records], one.memory)
		steps[one.records] += len(recording)
	}
	if steps[true] < 2*steps[false] {
		return fmt.Errorf("the sidecars that record have recordings of %d bytes, the others of %d", steps[true], steps[false])
	}
	more := median(memory[true]) - median(memory[false])
	what := fmt.Sprintf("resident memory of %d idle sidecars that record, and of %d that do not, after %s",
		recorderPairs, recorderPairs, b.opts.idle.Round(time.Second))
	b.report.fact(what,
		fmt.Sprintf("%.1f and %.1f MB (%s; %s): %+.1f MB", median(memory[true])/1e6, median(memory[false])/1e6,
			megabytes(memory[true]), megabytes(memory[false]), more/1e6),
		"<= 1 MB more", more <= 1e6)
	return nil
}

func megabytes(values []float64) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf("%.1f", v/1e6))
	}
	return strings.Join(out, " ")
}
