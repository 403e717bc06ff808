package kubeadm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// clients send requests until they are stopped: half of them keep a connection, the others
// dial for each request; a quarter of the requests write.
type clients struct {
	name string // of their object: each group uses its own
	cfg  *rest.Config
	stop context.CancelFunc
	all  sync.WaitGroup
	// etcdRestarts: an etcd is restarted at the moment.
	etcdRestarts atomic.Bool

	mu       sync.Mutex // mu guards the fields below
	requests int
	longest  time.Duration
	failed   []string
	dropped  []string // writes that etcd dropped while another of its members became the leader, and began in a restart of etcd
}

const clientPause = 100 * time.Millisecond

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// startClients starts clients that reach the API by dial; nil: at the address of cfg.
func startClients(t *testing.T, name string, cfg *rest.Config, dial dialer, count int) *clients {
	t.Helper()
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := &clients{name: name, cfg: cfg, stop: stop}
	for i := range count {
		client := &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{TLSClientConfig: tls.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: i%2 == 1, DialContext: dial},
		}
		c.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.send(ctx, client, n%4 == 3)
				select {
				case <-ctx.Done():
				case <-time.After(clientPause):
				}
			}
		})
	}
	return c
}

func (c *clients) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("clients of %s: %d requests, %d failed, %d writes were dropped by etcd, the longest took %s", c.name, c.requests, len(c.failed), len(c.dropped), c.longest)
}

// send sends one request. 429 with Retry-After is an answer that asks to try again.
func (c *clients) send(ctx context.Context, client *http.Client, write bool) {
	path := "/api/v1/namespaces/default/configmaps/" + c.name
	method, body := http.MethodGet, ""
	if write {
		method, body = http.MethodPatch, fmt.Sprintf(`{"data": {"n": "%d"}}`, time.Now().UnixNano())
	}
	began, etcdRestarts := time.Now(), c.etcdRestarts.Load()
	for {
		req, err := http.NewRequestWithContext(ctx, method, c.cfg.Host+path, strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/merge-patch+json")
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				var text []byte
				text, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close() // it was read to its end
				if err == nil && resp.StatusCode == http.StatusTooManyRequests {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // as Retry-After asks
					}
					continue
				}
				if err == nil && resp.StatusCode >= http.StatusBadRequest {
					err = fmt.Errorf("%d: %.200s", resp.StatusCode, text)
				}
			}
		}
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		c.longest = max(c.longest, time.Since(began))
		if err != nil {
			text := fmt.Sprintf("%s %s: %v", time.Now().UTC().Format("15:04:05.000"), method, err)
			if write && etcdRestarts && strings.Contains(text, "etcdserver: request timed out") {
				c.dropped = append(c.dropped, text)
			} else {
				c.failed = append(c.failed, text)
			}
		}
		return
	}
}

// TestKubeadm makes a cluster of three nodes by the commands of docs/kubeadm.md, behind the HAProxy
// of docs/load-balancers.md, and types kubeadm upgrade on all nodes at the same time, in turns, with
// clients that reach it through HAProxy, and others through the Service kubernetes: no request fails.
// Then it renews the certificates in the same way, which restarts each etcd. etcd itself drops
// writes while its leadership moves, and nothing in front of the kube-apiservers can help: they are
// counted apart, and only while an etcd is restarted. It is long, since each part needs the one
// before.
func TestKubeadm(t *testing.T) {
	dir := assetsDir(t)
	if !netns.Enter(t) {
		return
	}
	v := readVersions(t, dir)
	names := []string{"cp-1", "cp-2", "cp-3"}
	network := netns.New(t, names...)
	files := images(t, dir, v)
	var nodes []*Node
	for _, name := range names {
		n := NewNode(t, Config{Machine: network.Machine(name), Assets: dir, Pause: v.pause})
		for _, file := range files {
			n.Import(file)
		}
		nodes = append(nodes, n)
	}
	endpoint := net.JoinHostPort(netns.Hub.String(), "6443")
	startBalancer(t, endpoint, nodes)
	first := nodes[0]
	var printed joinArgs
	for i, n := range nodes {
		n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.0.0 --bundle ./bundle -- --listen=0.0.0.0:8086 --insecure-listen --kubernetes-service",
			pageImage, ownImage, "./bundle", bundleOf(n, "1.0.0"))
		n.writeKubeletPatch()
		if i == 0 {
			printed = n.initByFile(endpoint, v.first)
		} else {
			n.join(i, endpoint, printed)
		}
		n.Type("sidecar wait-ready")
		n.wantClean()
	}

	cfg, err := clientcmd.BuildConfigFromFlags("", first.File("/etc/kubernetes/admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := startProxy(t, cfg, nodes)
	for _, name := range []string{"balancer", "service"} {
		first.Shell("kubectl --kubeconfig /etc/kubernetes/admin.conf create configmap " + name)
	}
	all := []*clients{startClients(t, "balancer", cfg, nil, 8), startClients(t, "service", cfg, proxy.Dial, 8)}
	began := time.Now()
	upgradeInTurns(t, nodes, v.next)
	t.Logf("upgraded in %s: %s; %s", time.Since(began), all[0], all[1])
	for _, c := range all {
		c.etcdRestarts.Store(true)
	}
	began = time.Now()
	renewInTurns(t, nodes)
	t.Logf("each etcd restarted in %s: %s; %s", time.Since(began), all[0], all[1])
	for _, n := range nodes {
		n.Shell("cat /proc/[0-9]*/status 2>/dev/null | awk '/^VmRSS/ { sum += $2 } END { print sum / 1024 }' > /run/memory")
		t.Logf("%s: %s MB resident", n.Name, strings.TrimSpace(n.Run("cat", "/run/memory")))
	}
	awaitAddresses(t, proxy, nodes)
	requests := 0
	for _, c := range all {
		requests += c.end(t)
	}
	if requests < 10_000 {
		t.Errorf("got %d requests, want 10000 or more", requests)
	}
}

// end stops the clients, checks their results, and returns how many requests they sent.
func (c *clients) end(t *testing.T) int {
	t.Helper()
	c.stop()
	c.all.Wait()
	t.Log(c)
	if len(c.failed) > 0 {
		t.Errorf("clients of %s: %d of %d requests failed:\n%s", c.name, len(c.failed), c.requests, strings.Join(c.failed, "\n"))
	}
	if most := c.requests / 1000; len(c.dropped) > most {
		t.Errorf("clients of %s: etcd dropped %d of %d requests, want at most %d:\n%s", c.name, len(c.dropped), c.requests, most, strings.Join(c.dropped, "\n"))
	}
	return c.requests
}

// startProxy starts a proxy in the place of kube-proxy. When it returns, the Service contains all nodes.
func startProxy(t *testing.T, cfg *rest.Config, nodes []*Node) *balancers.Proxy {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	proxy, err := balancers.StartProxy(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	awaitAddresses(t, proxy, nodes)
	return proxy
}

// awaitAddresses waits until the Service contains the addresses of these nodes and no others.
func awaitAddresses(t *testing.T, proxy *balancers.Proxy, nodes []*Node) {
	t.Helper()
	var want []string
	for _, n := range nodes {
		want = append(want, net.JoinHostPort(n.machine.Address.String(), "6443"))
	}
	slices.Sort(want)
	nodes[0].Await("the addresses of all nodes in the Service", func() error {
		if got := slices.Sorted(slices.Values(proxy.Addresses())); !slices.Equal(got, want) {
			return fmt.Errorf("the Service has %v, want %v", got, want)
		}
		return nil
	})
}

// upgradeInTurns types the page's upgrade on all nodes at the same time.
func upgradeInTurns(t *testing.T, nodes []*Node, next string) {
	t.Helper()
	for _, n := range nodes {
		n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.1.0", pageNextImage, ownImage, "./bundle-1.1.0", bundleOf(n, "1.1.0"))
	}
	nodes[0].Type("kubeadm upgrade apply", "v1.36.4", next, skipControlPlane, skipControlPlane+forUpgrade)
	inTurns(t, nodes, typedLine(t, "sidecar turn -- kubeadm upgrade node", patches, patches+forUpgrade))
}

// renewInTurns restarts each etcd, with new certificates.
func renewInTurns(t *testing.T, nodes []*Node) {
	t.Helper()
	inTurns(t, nodes, typedLine(t, "sidecar turn -- bash", patches, patches+forUpgrade))
}

// inTurns types a line on all nodes at the same time, and requires that each succeeds.
func inTurns(t *testing.T, nodes []*Node, line string) {
	t.Helper()
	env := typedLine(t, ". /etc/lockstep/env") + "; "
	var typed sync.WaitGroup
	for _, n := range nodes {
		typed.Go(func() {
			out, err := n.tryFor(turnsEnd, "bash", "-euc", env+line)
			t.Logf("%s: %s: %v: %s", n.Name, line, err, out)
			if err != nil {
				t.Errorf("%s: %v", n.Name, err)
			}
		})
	}
	typed.Wait()
	for _, n := range nodes {
		n.wantClean()
	}
}

// startBalancer starts HAProxy on the machine of the test, with the configuration of the page.
func startBalancer(t *testing.T, endpoint string, nodes []*Node) {
	t.Helper()
	replacements := []string{"bind :6443", "bind " + endpoint}
	for i, n := range nodes {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6443", 1+i), net.JoinHostPort(n.machine.Address.String(), "6443"))
	}
	text, err := balancers.Block("../../docs/load-balancers.md", "haproxy", replacements...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := balancers.StartHAProxy(t.TempDir(), text, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("HAProxy:\n%s", p.Log())
		}
	})
}

// initByFile types kubeadm init on the first node, with the page's file, and the commands after
// it. It adds to the file only the settings that a machine for tests needs.
func (n *Node) initByFile(endpoint, version string) joinArgs {
	n.t.Helper()
	n.Write("/etc/kubeadm.yaml", pageConfig(n.t, "InitConfiguration")+fmt.Sprintf(`localAPIEndpoint: {advertiseAddress: %s}
nodeRegistration:
  criSocket: %s
  ignorePreflightErrors: [SystemVerification]
skipPhases: [addon]
---
`, n.machine.Address, socket)+pageConfig(n.t, "ClusterConfiguration", "lb.example.com:6443", endpoint)+fmt.Sprintf(`kubernetesVersion: %s
imageRepository: %s
networking: {podSubnet: 10.244.0.0/16}
apiServer: {extraArgs: [{name: endpoint-reconciler-type, value: none}]}
`, version, repository))
	out := n.Run("kubeadm", "init", "--config", "/etc/kubeadm.yaml", "--upload-certs")
	n.Type("sidecar kubeadm")
	n.Type("kubectl --kubeconfig /etc/kubernetes/admin.conf --server", "https://10.0.0.1:6443", n.server())
	return readJoinArgs(n.t, out)
}

// joinArgs are the arguments that kubeadm init prints for kubeadm join.
type joinArgs struct{ token, hash, key string }

func readJoinArgs(t testing.TB, printed string) joinArgs {
	t.Helper()
	value := func(name string) string {
		found := regexp.MustCompile(name + ` (\S+)`).FindStringSubmatch(printed)
		if found == nil {
			t.Fatalf("kubeadm init has printed no %s: %s", name, printed)
		}
		return found[1]
	}
	return joinArgs{value("--token"), value("--discovery-token-ca-cert-hash"), value("--certificate-key")}
}

// join types kubeadm join on another node, and the commands after it: on the second one with the
// flags of the page, on the third one with a file.
func (n *Node) join(i int, endpoint string, printed joinArgs) {
	n.t.Helper()
	if i == 1 {
		n.Type("kubeadm join", "lb.example.com:6443", endpoint, "--token ...", "--token "+printed.token,
			"--discovery-token-ca-cert-hash ...", "--discovery-token-ca-cert-hash "+printed.hash,
			"--certificate-key ...", "--certificate-key "+printed.key+n.machineFlags())
	} else {
		n.Write("/etc/kubeadm.yaml", pageConfig(n.t, "InitConfiguration", "InitConfiguration", "JoinConfiguration")+fmt.Sprintf(`discovery:
  bootstrapToken: {token: "%s", apiServerEndpoint: "%s", caCertHashes: ["%s"]}
controlPlane: {certificateKey: "%s", localAPIEndpoint: {advertiseAddress: %s}}
nodeRegistration:
  criSocket: %s
  ignorePreflightErrors: [SystemVerification]
`, printed.token, endpoint, printed.hash, printed.key, n.machine.Address, socket))
		n.Run("kubeadm", "join", "--config", "/etc/kubeadm.yaml")
	}
	n.Type("sidecar kubeadm")
}
