package kubeadm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// clients send requests through the load balancer until they are stopped: half of them
// keep a connection, the others dial for each request; a quarter of the requests write.
type clients struct {
	cfg  *rest.Config
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex // mu guards what follows
	requests int
	longest  time.Duration
	failed   []string
	dropped  []string // writes that etcd dropped while another of its members became the leader
}

const clientPause = 100 * time.Millisecond

func startClients(t *testing.T, cfg *rest.Config, count int) *clients {
	t.Helper()
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := &clients{cfg: cfg, stop: stop}
	for i := range count {
		client := &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{TLSClientConfig: tls.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: i%2 == 1},
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
	return fmt.Sprintf("%d requests, %d failed, %d writes were dropped by etcd, the longest took %s", c.requests, len(c.failed), len(c.dropped), c.longest)
}

// send sends one request. 429 with Retry-After is an answer that asks to try again.
func (c *clients) send(ctx context.Context, client *http.Client, write bool) {
	const path = "/api/v1/namespaces/default/configmaps/clients"
	method, body := http.MethodGet, ""
	if write {
		method, body = http.MethodPatch, fmt.Sprintf(`{"data": {"n": "%d"}}`, time.Now().UnixNano())
	}
	began := time.Now()
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
			if write && strings.Contains(text, "etcdserver: request timed out") {
				c.dropped = append(c.dropped, text)
			} else {
				c.failed = append(c.failed, text)
			}
		}
		return
	}
}

// TestKubeadm makes a cluster of three nodes as docs/kubeadm.md has it, behind a HAProxy as
// docs/load-balancers.md has it, and upgrades one node after another, with clients that reach
// it through HAProxy: no request fails. etcd itself drops writes while its leadership moves,
// whatever is in front of the kube-apiservers: they are counted apart, and only where etcd is
// restarted. It is long, since each part needs the one before.
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
	key := strings.TrimSpace(first.Run("kubeadm", "certs", "certificate-key"))
	const token = "abcdef.0123456789abcdef"
	for i, n := range nodes {
		n.Run("sidecar", "kubeadm", "--image", repository+"/lockstep:1.0.0", "--bundle", bundleOf(n, "1.0.0"), "--", "--listen=0.0.0.0:8086", "--insecure-listen")
		n.Write("/etc/lockstep/patches/kubeletconfiguration+merge.yaml", ownPatch+"cgroupRoot: /"+n.cgroup+"\n")
		if i == 0 {
			config := strings.Replace(kubeadmConfig(n, v.first), "patches:", "bootstrapTokens: [{token: "+token+"}]\ncertificateKey: "+key+"\npatches:", 1)
			n.Write("/etc/kubeadm.yaml", strings.Replace(config, "networking:", "controlPlaneEndpoint: "+endpoint+"\nnetworking:", 1))
			n.Run("kubeadm", "init", "--config", "/etc/kubeadm.yaml", "--upload-certs")
			n.Run("sidecar", "kubeadm")
			n.Shell("kubectl --kubeconfig /etc/kubernetes/admin.conf --server " + n.server() + " apply -k /etc/lockstep/cluster")
		} else {
			n.Write("/etc/kubeadm.yaml", joinConfig(n, endpoint, token, key))
			n.Run("kubeadm", "join", "--config", "/etc/kubeadm.yaml")
			n.Run("sidecar", "kubeadm")
		}
		n.Run("sidecar", "wait-ready", "--timeout", "5m")
		n.wantClean()
	}

	first.Shell("kubectl --kubeconfig /etc/kubernetes/admin.conf create configmap clients")
	cfg, err := clientcmd.BuildConfigFromFlags("", first.File("/etc/kubernetes/admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	c := startClients(t, cfg, 8)
	began := time.Now()
	for i, n := range nodes {
		n.rollForward(i, v.next)
		t.Logf("after %s: %s", n.Name, c)
	}
	took := time.Since(began)
	for _, n := range nodes {
		n.Shell("cat /proc/[0-9]*/status 2>/dev/null | awk '/^VmRSS/ { sum += $2 } END { print sum / 1024 }' > /run/memory")
		t.Logf("%s: %s MB resident", n.Name, strings.TrimSpace(n.Run("cat", "/run/memory")))
	}
	c.stop()
	c.all.Wait()
	t.Logf("upgraded in %s: %s", took, c)
	if len(c.failed) > 0 || c.requests < 1000 {
		t.Errorf("%d of %d requests failed:\n%s", len(c.failed), c.requests, strings.Join(c.failed, "\n"))
	}
	if most := c.requests / 1000; len(c.dropped) > most {
		t.Errorf("etcd dropped %d of %d requests, want at most %d:\n%s", len(c.dropped), c.requests, most, strings.Join(c.dropped, "\n"))
	}
}

// rollForward types the upgrade of one node, as the page has it: of the first, of another, and
// of one whose etcd is left alone.
func (n *Node) rollForward(i int, next string) {
	n.t.Helper()
	line := []string{"kubeadm", "upgrade", "node"}
	restartsEtcd := true
	switch i {
	case 0:
		line = []string{"kubeadm", "upgrade", "apply", next, "--yes"}
	case 2:
		line, restartsEtcd = append(line, "--etcd-upgrade=false", "--certificate-renewal=false"), false
	}
	n.Run("sidecar", "kubeadm", "--image", repository+"/lockstep:1.0.0", "--bundle", bundleOf(n, "1.1.0"))
	if restartsEtcd {
		n.Shell(". /etc/lockstep/env; sidecar cordon " + n.Name + " --for 15m")
		n.Shell(typedLine(n.t, "pkill -x kube-apiserver"))
	}
	n.Run(append(line, "--skip-phases", "addon", "--patches", "/etc/lockstep/patches",
		"--ignore-preflight-errors", "SystemVerification,CoreDNSUnsupportedPlugins,CoreDNSMigration")...)
	if restartsEtcd {
		n.Await("etcd and the sidecar", func() error {
			_, err := n.Try("bash", "-euc", ". /etc/lockstep/env; sidecar uncordon "+n.Name)
			return err
		})
	}
	n.Run("sidecar", "wait-ready", "--timeout", "5m")
	n.wantClean()
}

// typedLine is the line of docs/kubeadm.md that begins with a text.
func typedLine(t testing.TB, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubeadm.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "$ "); is && strings.HasPrefix(command, begin) {
			return command
		}
	}
	t.Fatalf("docs/kubeadm.md has no line %q", begin)
	return ""
}

// startBalancer starts HAProxy on the machine of the test, as the page has it.
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
	})
}

func joinConfig(n *Node, endpoint, token, key string) string {
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: %[1]s, apiServerEndpoint: "%[2]s", unsafeSkipCAVerification: true}}
controlPlane: {certificateKey: %[3]s, localAPIEndpoint: {advertiseAddress: %[4]s}}
nodeRegistration:
  name: %[5]s
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: IfNotPresent
  ignorePreflightErrors: [SystemVerification]
patches: {directory: /etc/lockstep/patches}
`, token, endpoint, key, n.machine.Address, n.Name)
}
