// Command bench measures how fast Lockstep is, with real parts on loopback: an etcd
// that syncs to the disk, with its default timing, a kube-apiserver, and sidecars,
// each in a process of its own. In the same run it measures other tools that do the
// same work, its peers. `make bench` runs it; docs/benchmarks.md explains the cases
// and shows results.
//
// A case that misses its bar is printed as missed and does not fail the command,
// because a shared machine can be slow at any moment.
//
// `bench peer NAME ...` runs one of the peers: see peer.go.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// benchCase measures something, and adds the rows and facts of it to the report.
type benchCase struct {
	group string // -cases=GROUP runs all cases of it
	name  string
	run   func(ctx context.Context, b *bench) error
	extra bool // runs only if -cases contains its name
	// network: it needs addresses other than those of loopback.
	network  bool
	programs []string // that it needs besides
}

// cases returns all cases, in the order in which they run.
func cases() []benchCase {
	many := benchCase{group: "change", name: "many", run: benchMany, extra: true}
	return slices.Concat(changeCases(), []benchCase{many}, quorumCases(), servicesCases(), turnsCases(), serveCases(), clientsCases(),
		strangersCases(), applyCases())
}

// rowNames returns the names of all rows, in the order in which they are printed.
func rowNames() []string {
	return slices.Concat(changeRows(), manyRows(), quorumRows(), servicesRows(), turnsRows(), serveRows(), clientsRows(),
		[]string{rowEdited, rowDeleted})
}

// options are the flags.
type options struct {
	assets string
	cases  string
	n      int
	rounds int
	sizes  string
	// prefixes are the numbers of control planes for the case many.
	prefixes  string
	startRate float64
	outages   string
	ttl       time.Duration
	kills     int
	peers     int
	idle      time.Duration
	logs      string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "peer" {
		exit(runPeer(os.Args[2], os.Args[3:]))
	}
	var o options
	flag.StringVar(&o.assets, "assets", "bin", "`directory` of the binaries")
	flag.StringVar(&o.cases, "cases", "all", "what to run, comma separated: all, a group, or cases: "+caseNames())
	flag.IntVar(&o.n, "n", 100, "repetitions of each case that takes less than a second")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds in which each tool applies the same objects")
	flag.StringVar(&o.sizes, "sizes", "100,1000,5000,10000", "numbers of objects for the case growth, which runs only if -cases names it")
	flag.StringVar(&o.prefixes, "prefixes", "100,300,1000", "numbers of control planes on one etcd for the case many, which runs only if -cases names it")
	flag.Float64Var(&o.startRate, "start-rate", 20, "how many control planes start in a second, in the case many")
	flag.StringVar(&o.outages, "outages", "0s,15s", "for how long etcd is off in the case many, after each kill -9 of it; empty: it is not killed")
	flag.DurationVar(&o.ttl, "ttl", lockstep.Defaults().LeaseTTL, "--lease-ttl of the sidecars in the case many")
	flag.IntVar(&o.kills, "kills", 24, "repetitions of kill -9, six at the same time")
	flag.IntVar(&o.peers, "peers", 6, "repetitions of the slow cases of the peers, at the same time; 0: do not measure peers")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long idle sidecars are observed")
	flag.StringVar(&o.logs, "logs", "", "`directory` for the logs of all parts; empty: they are not kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// caseNames returns the groups and cases that -cases accepts.
func caseNames() string {
	var out []string
	for _, c := range cases() {
		if !slices.Contains(out, c.group) {
			out = append(out, c.group)
		}
		out = append(out, c.name)
	}
	return strings.Join(out, ", ")
}

// chosen returns the cases that -cases names.
func chosen(list string) ([]benchCase, error) {
	words := strings.Split(list, ",")
	var out []benchCase
	known := []string{"all"}
	for _, c := range cases() {
		known = append(known, c.group, c.name)
		if slices.ContainsFunc(words, func(w string) bool { return w == c.name || !c.extra && (w == "all" || w == c.group) }) {
			out = append(out, c)
		}
	}
	for _, w := range words {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("-cases: there is no %q; there are %s", w, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// runnable returns the cases whose needs this machine meets, and why the others are left out.
func runnable(list []benchCase) (out []benchCase, left []string) {
	for _, c := range list {
		if missing := c.missing(); len(missing) > 0 {
			left = append(left, fmt.Sprintf("NOT MEASURED: %s: it needs %s", c.name, strings.Join(missing, ", ")))
			continue
		}
		out = append(out, c)
	}
	return out, left
}

// missing lists the needs of a case that this machine does not meet.
func (c benchCase) missing() (out []string) {
	programs := c.programs
	if c.network {
		programs = append([]string{"unshare", "ip"}, programs...)
		if os.Geteuid() != 0 {
			out = append(out, "root")
		}
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			out = append(out, name)
		}
	}
	if c.network && len(out) == 0 {
		if text, err := exec.Command("unshare", "--net", "true").CombinedOutput(); err != nil {
			out = append(out, fmt.Sprintf("network namespaces (%s)", bytes.TrimSpace(text)))
		}
	}
	return out
}

// bench is shared by the cases.
type bench struct {
	opts    options
	dir     string
	cluster *cluster.Cluster
	etcd    *clientv3.Client
	report  *report

	addresses int // of loopback, used by nodes

	prints []func(io.Writer) // print further tables
}

// run starts the parts, runs the cases, prints the tables and removes all files.
func run(ctx context.Context, o options) (err error) {
	list, err := chosen(o.cases)
	if err != nil {
		return err
	}
	list, left := runnable(list)
	for _, reason := range left {
		progress("%s", reason)
	}
	if len(list) == 0 {
		return errors.New("no case is left")
	}
	if slices.ContainsFunc(list, func(c benchCase) bool { return c.network }) {
		if err := enterNetwork(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "lockstep-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	b := &bench{opts: o, dir: dir, report: newReport(rowNames()...)}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.start(); err != nil {
		return err
	}
	for _, c := range list {
		progress("%s ...", c.name)
		begin := time.Now()
		err := c.run(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.name, err), b.cluster.WriteLogs(os.Stderr))
		}
		progress("%s took %s", c.name, time.Since(begin).Round(100*time.Millisecond))
	}
	if err := b.machine(ctx, os.Stdout, time.Since(began)); err != nil {
		return err
	}
	b.report.print(os.Stdout)
	for _, p := range b.prints {
		p(os.Stdout)
	}
	for _, reason := range left {
		fmt.Println("\n" + reason)
	}
	return nil
}

// machine prints the versions and the machine, on which the figures depend.
func (b *bench) machine(ctx context.Context, w io.Writer, took time.Duration) error {
	kubernetes, err := exec.CommandContext(ctx, filepath.Join(b.opts.assets, "kube-apiserver"), "--version").Output()
	if err != nil {
		return err
	}
	etcd, err := b.etcd.Status(ctx, b.cluster.Etcd.Endpoints()[0])
	if err != nil {
		return err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown") // not on Linux
	}
	fmt.Fprintf(w, "%s, %s/%s, %d CPUs, load average %s; %s; etcd %s with fsync; %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), strings.Fields(string(load))[0], strings.TrimSpace(string(kubernetes)), etcd.Version, took.Round(time.Second))
	return nil
}

func (b *bench) start() error {
	logs := b.opts.logs
	if logs == "" {
		logs = filepath.Join(b.dir, "logs")
	}
	var addresses []net.IP
	for i := range maxAddresses {
		addresses = append(addresses, net.ParseIP(addressOf(1+i)))
	}
	for i := range maxNetworkAddresses {
		addresses = append(addresses, net.ParseIP(networkAddress(1+i)))
	}
	var err error
	b.cluster, err = cluster.New(cluster.Config{
		Assets: b.opts.assets, Dir: b.dir, LogDir: logs, Addresses: addresses,
		// As in production: with fsync, and with etcd's default timing.
		Etcd: etcdtest.Config{Fsync: true, Heartbeat: 100 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	b.etcd, err = clientv3.New(clientv3.Config{Endpoints: b.cluster.Etcd.Endpoints(), Logger: zap.NewNop()})
	return err
}

// startAPI starts a kube-apiserver with objects of its own, for one case. All
// sidecars of one API apply the same set of objects, so cases cannot share it.
func (b *bench) startAPI(name string) (*cluster.APIServer, error) {
	return b.cluster.StartAPIServer(cluster.APIServerConfig{Name: name, Args: []string{"--etcd-prefix=" + registryOf(name)}})
}

// registryOf is the prefix of a case's objects in etcd.
func registryOf(name string) string { return "/registry-" + name }

func (b *bench) close() error {
	if b.cluster == nil {
		return nil
	}
	if b.etcd != nil {
		// Close reports the end of the client's own context.
		_ = b.etcd.Close()
	}
	return b.cluster.Close()
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
