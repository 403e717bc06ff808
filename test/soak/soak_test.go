package soak

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

var (
	duration = flag.Duration("soak.duration", 2*time.Minute, "how long upgrades and faults happen")
	only     = flag.String("soak.only", "", "names of the only faults that happen, with commas between them; empty: all")
	seed     = flag.Uint64("soak.seed", 0, "seed of the schedule; 0: a new one")
)

// TestSoak runs the soak and checks every invariant. It is skipped without the
// binaries.
func TestSoak(t *testing.T) {
	assets := cluster.Assets(t, "kube-apiserver", "sidecar", "etcdutl")
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("seed %d: repeat with go test ./test/soak -run TestSoak -soak.seed=%d -soak.duration=%s", s, s, *duration)
	c := cluster.NewTracingForTest(t, etcdMembers, "kube-apiserver", "sidecar")
	result, err := Run(t.Context(), Config{
		Cluster: c, Assets: assets, Dir: t.TempDir(), Seed: s, Duration: *duration, Only: onlyFaults(t),
		Logf: func(format string, args ...any) { t.Logf(format, args...) },
	})
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	t.Logf("seed %d: %s", s, result.Report())
	for age, h := range result.Histories {
		writeHistory(t, age, h)
	}
	for _, v := range result.Violations {
		t.Errorf("seed %d: %s\n%s", s, v, judge.Around(result.Histories[v.Age], v.Revision, 15))
	}
	if c := result.Counts; c.Ready == 0 || c.ObjectWrites == 0 || c.Statuses == 0 || c.Contents == 0 {
		t.Errorf("seed %d: got %+v: too little happened for a judgement", s, c)
	}
}

// onlyFaults are the faults of -soak.only.
func onlyFaults(t *testing.T) []string {
	t.Helper()
	if *only == "" {
		return nil
	}
	out := strings.Split(*only, ",")
	for _, kind := range out {
		if !slices.Contains(faultNames[:], kind) {
			t.Fatalf("-soak.only: there is no fault %q; want some of %q", kind, faultNames)
		}
	}
	return out
}

// writeHistory keeps all events, for a reader who needs more than those around a
// violation.
func writeHistory(t *testing.T, age int, h judge.History) {
	t.Helper()
	var b strings.Builder
	for i := range h.Events {
		fmt.Fprintln(&b, &h.Events[i])
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("history-%d.txt", age)), []byte(b.String()), 0o600); err != nil {
		t.Error(err)
	}
}
