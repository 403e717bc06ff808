// Command run is the quickest way to see Lockstep work. It starts one node on
// loopback by one command: a sidecar with its built-in bundle, which runs an etcd and a
// kube-apiserver. Two more nodes can join. Ctrl-C stops it.
//
// With -cluster=external it starts a real etcd, a real kube-apiserver and a sidecar beside
// each other, as in a cluster that exists already. If KUBECONFIG and ETCD_SERVERS are set,
// it starts only a sidecar, for that cluster. `make run` runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

const (
	external = "external" // of -cluster; empty: one command is the whole node
	embedded = "embedded" // of ETCD_SERVERS: the sidecar runs an etcd of its own
)

// threeNodes have a majority while one of them is stopped.
const threeNodes = 3

// settings are what differs from run to run.
type settings struct {
	assets string // directory of the binaries
	// addresses are those of the node that is started by one command, and of those that may
	// join. None: etcd, kube-apiserver and sidecar are started beside each other.
	addresses []string
}

// defaultListen is the address that clients of a sidecar use by default.
const defaultListen = "127.0.0.1:8086"

func main() {
	assets := flag.String("assets", "bin", "directory of the binaries")
	kind := flag.String("cluster", "", external+": etcd, kube-apiserver and sidecar beside each other")
	flag.Parse()
	s := settings{assets: *assets}
	var err error
	switch *kind {
	case "":
		s.addresses, err = cluster.NodeAddresses(threeNodes)
	case external:
	default:
		err = fmt.Errorf("CLUSTER=%s: must be %s, or empty", *kind, external)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
	ctx, stop := terminal.Interruptible()
	defer stop()
	if err := run(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// run starts everything, waits for Ctrl-C and stops everything.
func run(ctx context.Context, s settings, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "lockstep-run-")
	if err != nil {
		return err
	}
	p := newPrinter(out, s.assets)
	cfg := cluster.Config{Assets: s.assets, Dir: dir, LogDir: filepath.Join(dir, "logs")}
	var c *cluster.Cluster
	defer func() { err = cleanUp(c, cfg, p, err) }()

	start := startLocal
	if len(s.addresses) > 0 {
		start = s.startCommand
	}
	if os.Getenv("KUBECONFIG") != "" && os.Getenv("ETCD_SERVERS") != "" {
		start = startOwn
	}
	c, n, err := start(cfg, p)
	if err != nil {
		return err
	}
	return serve(ctx, n, p)
}

// cleanUp stops everything. It keeps the logs if something failed.
func cleanUp(c *cluster.Cluster, cfg cluster.Config, p *printer, err error) error {
	if c != nil {
		p.stopping()
		err = errors.Join(err, c.Close())
	}
	if err != nil && c != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, cfg.LogDir)
	}
	return errors.Join(err, os.RemoveAll(cfg.Dir))
}

// serve waits until the node is ready, and prints what to try. Then it waits for
// Ctrl-C, or for a part that ends by itself.
func serve(ctx context.Context, n node, p *printer) error {
	ended, watching := context.WithCancelCause(ctx)
	defer watching(nil)
	for _, process := range n.processes() {
		go func() { // ends with the process, which run stops
			<-process.Done()
			watching(fmt.Errorf("%s ended; %s", filepath.Base(process.LogFile()), process.Ending()))
		}()
	}
	if err := awaitReady(ended, n, p); err != nil && ended.Err() == nil {
		return err
	}
	if ended.Err() == nil {
		p.ready(n)
		<-ended.Done()
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(ended)
}

// awaitReady prints each new reason why the node is not ready yet.
func awaitReady(ctx context.Context, n node, p *printer) error {
	last := ""
	return cluster.Poll(ctx, func(ctx context.Context) error {
		status, err := n.sidecar.Status(ctx)
		if err != nil {
			return err
		}
		if status.Ready.Ready {
			return nil
		}
		if status.Ready.Reason != last {
			last = status.Ready.Reason
			p.waiting(last, status.Ready.Message)
		}
		return errors.New(status.Ready.Message)
	})
}

// node has the parts that were started, and their addresses.
type node struct {
	api         *cluster.APIServer // nil in the user's own cluster
	sidecar     *cluster.Sidecar
	kubeconfig  string
	etcdServers []string
	dataDir     string // of the sidecar's etcd member; empty: it has none
	services    string // directory; empty: the kube-apiserver is not run by the sidecar
	logs        string
	more        []joining // nodes that may join
	program     string    // the path of the sidecar's program; empty: no node joins
}

// joining is a node that does not run yet.
type joining struct {
	id, address, dir, kubeconfig string
	settings                     string // file with its environment variables, for a shell
}

// write writes the files that the node needs. environment is that of its services.
func (j joining) write(c *cluster.Cluster, n node, environment []string) error {
	if err := c.WriteKubeconfig(j.kubeconfig, "https://"+net.JoinHostPort(j.address, strconv.Itoa(cluster.APIServerPort))); err != nil {
		return err
	}
	lines := append([]string{
		"PATH=" + filepath.Dir(n.program) + ":$PATH",
		"LOCKSTEP_NODE_ID=" + j.id, "LOCKSTEP_NODE_ADDRESS=" + j.address, "LOCKSTEP_LISTEN=" + j.address + ":8086",
		"LOCKSTEP_SERVER=http://" + j.address + ":8086", // for commands like `sidecar status`
		"LOCKSTEP_DATA_DIR=" + j.dir, "LOCKSTEP_KUBECONFIG=" + j.kubeconfig, "LOCKSTEP_SERVICES=" + n.services, "LOCKSTEP_BUNDLE=builtin",
	}, environment...)
	var text strings.Builder
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		fmt.Fprintf(&text, "export %s=\"%s\"\n", name, value)
	}
	return os.WriteFile(j.settings, []byte(text.String()), 0o600)
}

func (n node) processes() []*cluster.Process {
	if n.api == nil {
		return []*cluster.Process{n.sidecar.Process}
	}
	return []*cluster.Process{n.api.Process, n.sidecar.Process}
}

func startLocal(cfg cluster.Config, p *printer) (c *cluster.Cluster, n node, err error) {
	p.introLocal()
	p.starting("etcd")
	if c, err = cluster.New(cfg); err != nil {
		return nil, node{}, err
	}
	n.etcdServers, n.logs = c.Etcd.Endpoints(), cfg.LogDir
	p.started(c.Etcd.Endpoints()[0])

	p.starting("kube-apiserver")
	if n.api, err = c.StartAPIServer(cluster.APIServerConfig{Name: "local"}); err != nil {
		return c, n, err
	}
	n.kubeconfig = n.api.Kubeconfig()
	p.started(n.api.URL())
	err = n.startSidecar(c, cluster.SidecarConfig{NodeID: "local"}, p)
	return c, n, err
}

// startCommand starts a node by one command.
func (s settings) startCommand(cfg cluster.Config, p *printer) (c *cluster.Cluster, n node, err error) {
	p.introLocal()
	assets, err := filepath.Abs(s.assets)
	if err != nil {
		return nil, n, err
	}
	cfg.WithoutEtcd = true
	for _, address := range s.addresses {
		cfg.Addresses = append(cfg.Addresses, net.ParseIP(address))
	}
	if c, err = cluster.New(cfg); err != nil {
		return nil, n, err
	}
	if n.program, err = filepath.Abs(c.SidecarBinary()); err != nil {
		return c, n, err
	}
	// The binaries are in a directory of the repository.
	n.logs, n.services = cfg.LogDir, filepath.Join(assets, "..", "test", "local", "services")
	environment := []string{"ASSETS=" + assets, "KEYS=" + c.Keys()}
	for i, address := range s.addresses {
		id := string(rune('a' + i))
		more := joining{
			id: id, address: address, dir: filepath.Join(cfg.Dir, "data-"+address), kubeconfig: filepath.Join(cfg.Dir, address+".kubeconfig"),
			settings: filepath.Join(cfg.Dir, id+".env"),
		}
		if err := more.write(c, n, environment); err != nil {
			return c, n, err
		}
		n.more = append(n.more, more)
	}
	first := n.more[0]
	p.note("sidecar run --bundle=builtin --etcd=embedded --services=test/local/services --node-address=" + first.address)
	n.more, n.dataDir, n.kubeconfig = n.more[1:], first.dir, first.kubeconfig
	sidecar := cluster.SidecarConfig{
		NodeID: "local", EtcdInArgs: true, Env: environment,
		Args: []string{"--etcd=embedded", "--services=" + n.services, "--data-dir=" + n.dataDir, "--node-address=" + first.address},
	}
	err = n.startSidecar(c, sidecar, p)
	return c, n, err
}

// startOwn passes the variables LOCKSTEP_* on to the sidecar, such as the paths of
// etcd's certificates.
func startOwn(cfg cluster.Config, p *printer) (c *cluster.Cluster, n node, err error) {
	p.intro("a sidecar for the cluster of " + os.Getenv("KUBECONFIG"))
	if c, err = cluster.Attach(cfg); err != nil {
		return nil, node{}, err
	}
	n.kubeconfig, n.logs = os.Getenv("KUBECONFIG"), cfg.LogDir
	host, err := os.Hostname()
	if err != nil {
		return c, n, err
	}
	sidecar := cluster.SidecarConfig{NodeID: cmp.Or(os.Getenv("LOCKSTEP_NODE_ID"), strings.ToLower(host)), Bundle: os.Getenv("LOCKSTEP_BUNDLE")}
	if n.etcdServers = strings.Split(os.Getenv("ETCD_SERVERS"), ","); n.etcdServers[0] == embedded {
		// It is kept: the objects in the cluster belong to this etcd from now on.
		n.dataDir = cmp.Or(os.Getenv("LOCKSTEP_DATA_DIR"), filepath.Join(cfg.Assets, "run-data"))
		sidecar.EtcdInArgs, sidecar.Args = true, []string{"--etcd=embedded", "--data-dir=" + n.dataDir}
		p.note("the sidecar's etcd is in " + n.dataDir)
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "LOCKSTEP_") {
			sidecar.Env = append(sidecar.Env, variable)
		}
	}
	err = n.startSidecar(c, sidecar, p)
	return c, n, err
}

func (n *node) startSidecar(c *cluster.Cluster, cfg cluster.SidecarConfig, p *printer) (err error) {
	p.starting("sidecar")
	cfg.Listen, cfg.Kubeconfig = listenAddr(), n.kubeconfig
	if !cfg.EtcdInArgs {
		cfg.EtcdServers = n.etcdServers
	}
	if n.sidecar, err = c.StartSidecar(cfg); err != nil {
		return err
	}
	p.started(n.sidecar.URL())
	return nil
}

// listenAddr returns the default address if it is free. Empty: any address.
func listenAddr() string {
	if addr := os.Getenv("LOCKSTEP_LISTEN"); addr != "" {
		return addr
	}
	l, err := net.Listen("tcp", defaultListen)
	if err != nil || l.Close() != nil {
		return ""
	}
	return defaultListen
}
