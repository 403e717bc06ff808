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
	"github.com/lockstep-dev/lockstep/test/netns"
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
	cluster.Assets(t, "etcdutl")
	soak(t, cluster.NewTracingForTest(t, etcdMembers, "kube-apiserver", "sidecar"), nil)
}

// TestSoakEmbedded does the same with nodes that are their own quorum, in network
// namespaces. It is skipped, and says so, if there can be none.
func TestSoakEmbedded(t *testing.T) {
	cluster.Assets(t, "kube-apiserver", "sidecar")
	if !netns.Enter(t) {
		return
	}
	network := netns.New(t, nodeNames...)
	addresses := append(netns.Addresses(len(nodeNames)), netns.Hub)
	soak(t, cluster.NewTracingAtForTest(t, addresses, "kube-apiserver", "sidecar"), network)
}

func soak(t *testing.T, c *cluster.Cluster, network *netns.Network) {
	t.Helper()
	assets := cluster.Assets(t, "sidecar")
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("seed %d: repeat with go test ./test/soak -run %s$ -soak.seed=%d -soak.duration=%s", s, t.Name(), s, *duration)
	result, err := Run(t.Context(), Config{
		Cluster: c, Network: network, Assets: assets, Dir: t.TempDir(), Seed: s, Duration: *duration, Only: onlyFaults(t, weightsOf(network)),
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
func onlyFaults(t *testing.T, weights [nFaults]int) []string {
	t.Helper()
	if *only == "" {
		return nil
	}
	out := strings.Split(*only, ",")
	for _, kind := range out {
		if i := slices.Index(faultNames[:], kind); i < 0 || weights[i] == 0 {
			t.Fatalf("-soak.only: this cluster has no fault %q; want some of %q", kind, faultNames)
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
