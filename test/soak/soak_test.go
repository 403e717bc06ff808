package soak

import (
	"cmp"
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

// TestMain is also the program of the services.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == serviceWord {
		if err := serve(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var (
	duration = flag.Duration("soak.duration", 0, "how long upgrades and faults happen; 0: a minute, and two if roles are moved")
	only     = flag.String("soak.only", "", "names of the only faults that happen, with commas between them; empty: all")
	besieged = flag.Bool("soak.strangers", false, "whether strangers attack the nodes: for nodes that are their own quorum")
	seed     = flag.Uint64("soak.seed", 0, "seed of the schedule; 0: a new one")
)

// TestSoak runs the soak and checks every invariant. It is skipped without the
// binaries.
func TestSoak(t *testing.T) {
	cluster.Assets(t, "etcdutl")
	soak(t, cluster.NewTracingForTest(t, usual.members, "kube-apiserver", "sidecar"), nil, usual)
}

// TestSoakEmbedded does the same with nodes that are their own quorum, in network
// namespaces. It is skipped, and says so, if there can be none.
func TestSoakEmbedded(t *testing.T) { soakOnNetwork(t, embedded) }

// TestSoakRoles does the same with five such nodes that run services, while their roles
// are moved: members of etcd leave and return, and nodes lose the controller role and get
// it back.
func TestSoakRoles(t *testing.T) { soakOnNetwork(t, moving) }

func soakOnNetwork(t *testing.T, s shape) {
	t.Helper()
	cluster.Assets(t, "kube-apiserver", "sidecar")
	if !netns.Enter(t) {
		return
	}
	network := netns.New(t, nodeNames[:s.nodes]...)
	addresses := append(netns.Addresses(s.nodes), netns.Hub)
	soak(t, cluster.NewTracingAtForTest(t, addresses, "kube-apiserver", "sidecar"), network, s)
}

func soak(t *testing.T, c *cluster.Cluster, network *netns.Network, of shape) {
	t.Helper()
	assets := cluster.Assets(t, "sidecar")
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	lasts := cmp.Or(*duration, of.lasts)
	t.Logf("seed %d: repeat with go test ./test/soak -run %s$ -soak.seed=%d -soak.duration=%s", s, t.Name(), s, lasts)
	result, err := Run(t.Context(), Config{
		Cluster: c, Network: network, Shape: of, Assets: assets, Dir: t.TempDir(), Seed: s, Duration: lasts, Strangers: *besieged && network != nil, Only: onlyFaults(t, of.weights),
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
	if of.moves {
		wantMoves(t, result)
		if lasts >= eventful {
			wantRollbacks(t, result)
		}
	}
	if n := result.attacks(); *besieged && network != nil && n == 0 {
		t.Errorf("seed %d: no attack of strangers came to anything", s)
	}
	if c := result.Counts; c.Ready == 0 || c.ObjectWrites == 0 || c.Statuses == 0 || c.Contents == 0 {
		t.Errorf("seed %d: got %+v: too little happened for a judgement", s, c)
	}
}

// wantMoves requires that roles were moved, and that nodes were seen at rest.
func wantMoves(t *testing.T, r Result) {
	t.Helper()
	h := r.Histories[len(r.Histories)-1]
	if len(h.Takes) == 0 || len(h.Services) == 0 || len(h.Seats) == 0 || len(h.Acks) == 0 || len(h.Sights) == 0 || r.Done["settled: roles"] == 0 {
		t.Errorf("got %d roles taken, %d moments of services, %d lists of members, %d writes, %d sights, %d times at rest: too little for a judgement",
			len(h.Takes), len(h.Services), len(h.Seats), len(h.Acks), len(h.Sights), r.Done["settled: roles"])
	}
}

// eventful is how long a run with moved roles takes until each seed has had rollbacks and changed services.
const eventful = 10 * time.Minute

// wantRollbacks requires that people rolled back, and that services that had changed were started again in turn.
func wantRollbacks(t *testing.T, r Result) {
	t.Helper()
	changes := r.Done["fault: "+changeServices.String()]
	if r.Done["rollback begun"] < 2 || *only == "" && (changes < 3 || r.Counts.InTurn == 0) {
		t.Errorf("got %d rollbacks, %d changes of the service, and %d restarts in a turn, want at least 2, 3 and 1",
			r.Done["rollback begun"], changes, r.Counts.InTurn)
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
