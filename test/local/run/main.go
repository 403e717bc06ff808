// Command run is the quickest way to see Lockstep work. It starts one node on
// loopback by one command: a sidecar with its built-in bundle, which runs an etcd and a
// kube-apiserver. Two more nodes can join. Ctrl-C stops it.
//
// With -cluster=external it starts a real etcd, a real kube-apiserver and a sidecar beside
// each other, as in a cluster that exists already. If KUBECONFIG and ETCD_SERVERS are set,
// it starts only a sidecar, for that cluster. `make run` runs it.
package main

import (
	"bufio"
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

// firstNode is the ID of the node that is started here.
const firstNode = "local"

// threeNodes keep a majority while one of them is stopped.
const threeNodes = 3

// settings differ from run to run.
type settings struct {
	assets string // directory of the binaries
	bundle string // directory of the user's own bundle; empty: see choose
	// addresses are the addresses of the node that is started by one command, and of the nodes
	// that may join. None: etcd, kube-apiserver and sidecar are started beside each other.
	addresses []string
}

// defaultListen is the address that clients of a sidecar use by default.
const defaultListen = "127.0.0.1:8086"

func main() {
	assets := flag.String("assets", "bin", "directory of the binaries")
	kind := flag.String("cluster", "", external+": etcd, kube-apiserver and sidecar beside each other")
	own := flag.String("bundle", "", "directory of a bundle; empty: LOCKSTEP_BUNDLE, or the built-in one")
	flag.Parse()
	s := settings{assets: *assets, bundle: *own}
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
	if err := run(ctx, s, os.Stdout, typedLines(os.Stdin)); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// run starts everything, waits for Ctrl-C and stops everything. typed gets the lines that the user types.
func run(ctx context.Context, s settings, out io.Writer, typed <-chan string) (err error) {
	b, err := choose(s.bundle)
	if err = errors.Join(err, freeListen()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-run-")
	if err != nil {
		return err
	}
	p := newPrinter(out, s.assets)
	p.bundle = b
	cfg := cluster.Config{Assets: s.assets, Dir: dir, LogDir: filepath.Join(dir, "logs")}
	var c *cluster.Cluster
	var n node
	defer func() { err = cleanUp(c, n, cfg, p, err) }()

	start := startLocal
	if len(s.addresses) > 0 {
		start = s.startCommand
	}
	if os.Getenv("KUBECONFIG") != "" && os.Getenv("ETCD_SERVERS") != "" {
		start = startOwn
	}
	if c, n, err = start(cfg, p); err != nil {
		return err
	}
	return serve(ctx, c, n, p, typed)
}

// serve waits until the node is ready, and prints commands to try. Then it waits for
// Ctrl-C, for a part that ends by itself, or for the directory of another bundle, with which
// the node starts again.
func serve(ctx context.Context, c *cluster.Cluster, n node, p *printer, typed <-chan string) error {
	for first := true; ; first = false {
		next, err := serveOne(ctx, n, p, func() { p.ready(n, first) }, typed)
		if err != nil || next.Bundle == nil {
			return err
		}
		p.stoppingFor(next)
		if err := n.sidecar.Stop(); err != nil {
			return err
		}
		p.bundle, n.bundle, n.cfg.Bundle = next, next.dir, next.dir
		if err := errors.Join(n.writeSettings(), n.startSidecar(c, n.cfg, p)); err != nil {
			return err
		}
	}
}

// serveOne serves with one bundle, and returns the next one; none after Ctrl-C.
func serveOne(ctx context.Context, n node, p *printer, ready func(), typed <-chan string) (next chosen, err error) {
	ended, watching := context.WithCancelCause(ctx)
	defer watching(nil)
	for _, process := range n.processes() {
		go func() { // ends with the process, which run or serve stops
			watching(endOf(n.nameOf(process), process))
		}()
	}
	if err := awaitReady(ended, n, p); err != nil && ended.Err() == nil {
		return next, err
	}
	if ended.Err() == nil {
		ready()
	}
	for asked := ""; ; {
		select {
		case <-ended.Done():
			if ctx.Err() != nil {
				return next, nil
			}
			return next, context.Cause(ended)
		case dir := <-typed:
			if next, err = choose(dir); err != nil {
				p.rejected(dir, err)
				continue
			}
			if text := n.otherBundle(n.objectsBundle(ended, p), next, p); text != "" && asked != next.Name {
				asked = next.Name
				p.print("%s", text)
				continue
			}
			return next, nil
		}
	}
}

// typedLines sends each line that is not empty.
func typedLines(in io.Reader) <-chan string {
	out := make(chan string)
	go func() { // ends with the program: nothing interrupts a read
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			if line := strings.TrimSpace(scanner.Text()); line != "" {
				out <- line
			}
		}
	}()
	return out
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
		message := status.Ready.Message
		if problem := status.Etcd.Problem; problem != "" && !strings.Contains(message, problem) {
			message += "; etcd at " + strings.Join(status.Etcd.Endpoints, ", ") + ": " + problem
		}
		if now := status.Ready.Reason + status.Etcd.Problem; now != last {
			last = now
			p.waiting(status.Ready.Reason, message)
		}
		return errors.New(status.Ready.Message)
	})
}

// node holds the parts that were started, and their addresses.
type node struct {
	api         *cluster.APIServer // nil in the user's own cluster
	sidecar     *cluster.Sidecar
	cfg         cluster.SidecarConfig // of sidecar
	kubeconfig  string
	etcdServers []string
	dataDir     string  // of the sidecar's etcd member; empty: it runs none
	services    string  // directory; empty: the kube-apiserver is not run by the sidecar
	bundle      string  // directory, or the name of the built-in bundle
	own         joining // the node itself, for its file of settings; zero: there is none
	logs        string
	more        []joining // nodes that may join
	program     string    // the path of the sidecar's program; empty: no node joins
}

// joining is a node that does not run yet.
type joining struct {
	id, address, dir, kubeconfig string
	url                          string   // of the sidecar
	environment                  []string // of its services
	settings                     string   // file with its environment variables, for a shell
}

// writeSettings writes the files of settings, with the node's current bundle: a node that joins
// after an upgrade starts with the new one.
func (n node) writeSettings() error {
	if n.own.settings == "" {
		return nil
	}
	err := n.own.write(n)
	for _, j := range n.more {
		err = errors.Join(err, j.write(n))
	}
	return err
}

// write writes the file of settings.
func (j joining) write(n node) error {
	lines := append([]string{
		"PATH=" + filepath.Dir(n.program) + ":$PATH", "KUBECONFIG=" + j.kubeconfig,
		"LOCKSTEP_NODE_ID=" + j.id, "LOCKSTEP_ETCD=embedded", "LOCKSTEP_NODE_ADDRESS=" + j.address,
		"LOCKSTEP_LISTEN=" + strings.TrimPrefix(j.url, "http://"),
		"LOCKSTEP_SERVER=" + j.url, // for commands like `sidecar status`
		"LOCKSTEP_DATA_DIR=" + j.dir, "LOCKSTEP_KUBECONFIG=" + j.kubeconfig,
		"LOCKSTEP_SERVICES=" + n.services, "LOCKSTEP_BUNDLE=" + n.bundle,
	}, j.environment...)
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
	if n.api, err = c.StartAPIServer(cluster.APIServerConfig{Name: firstNode}); err != nil {
		return c, n, err
	}
	n.kubeconfig = n.api.Kubeconfig()
	p.started(n.api.URL())
	err = n.startSidecar(c, cluster.SidecarConfig{NodeID: firstNode, Bundle: p.bundle.dir}, p)
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
	n.logs, n.services, n.bundle = cfg.LogDir, filepath.Join(cfg.Dir, "services"), p.bundle.dir
	// The binaries are in a directory of the repository.
	if err := copyServices(filepath.Join(assets, "..", "test", "local", "services"), n.services); err != nil {
		return c, n, err
	}
	for i, address := range s.addresses {
		id := firstNode
		if i > 0 {
			id = string(rune('a' + i))
		}
		more := joining{
			id: id, address: address, dir: filepath.Join(cfg.Dir, "data-"+address), kubeconfig: filepath.Join(cfg.Dir, address+".kubeconfig"),
			settings: filepath.Join(cfg.Dir, id+".env"), url: "http://" + address + ":8086",
			environment: []string{
				"ASSETS=" + assets, "KEYS=" + c.Keys(),
				"APISERVER_LOG=" + filepath.Join(n.logs, "kube-apiserver-"+id+".log"),
			},
		}
		server := "https://" + net.JoinHostPort(address, strconv.Itoa(cluster.APIServerPort))
		if err := c.WriteKubeconfig(more.kubeconfig, server); err != nil {
			return c, n, err
		}
		n.more = append(n.more, more)
	}
	first := n.more[0]
	n.own, n.more, n.dataDir, n.kubeconfig = first, n.more[1:], first.dir, first.kubeconfig
	p.note("sidecar run --bundle=" + n.bundle + " --etcd=embedded --services=" + n.services + " --node-address=" + first.address)
	sidecar := cluster.SidecarConfig{
		NodeID: firstNode, Bundle: n.bundle, EtcdInArgs: true, Env: first.environment,
		Args: []string{"--etcd=embedded", "--services=" + n.services, "--data-dir=" + n.dataDir, "--node-address=" + first.address},
	}
	if err := n.startSidecar(c, sidecar, p); err != nil {
		return c, n, err
	}
	n.own.url = n.sidecar.URL()
	return c, n, n.writeSettings()
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
	sidecar := cluster.SidecarConfig{NodeID: cmp.Or(os.Getenv("LOCKSTEP_NODE_ID"), strings.ToLower(host)), Bundle: p.bundle.dir}
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
	if cfg.Kubeconfig = n.kubeconfig; cfg.Listen == "" {
		cfg.Listen = listenAddr()
	}
	if !cfg.EtcdInArgs {
		cfg.EtcdServers = n.etcdServers
	}
	if n.sidecar, err = c.StartSidecar(cfg); err != nil {
		return err
	}
	cfg.Listen = n.sidecar.Listen()
	n.cfg = cfg
	p.started(n.sidecar.URL())
	return nil
}
