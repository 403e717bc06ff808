package balancers_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	page        = "../../docs/load-balancers.md"
	statusKey   = "/lockstep/kubernetes/reconciler/status"
	apiPort     = "6443"
	sidecarPort = "8086"
)

// needsProgram skips the test loudly if a program is not installed.
func needsProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: needs %s: apt-get install --no-install-recommends %s", name, name)
	}
	return path
}

// gates is sidecars whose gates a status by hand opens: no leader applies anything. In
// place of kube-apiservers there are servers that answer with the ID of their node.
type gates struct {
	*testing.T
	cluster *cluster.Cluster
	nodes   []*gate
}

type gate struct {
	id      string
	address string
	sidecar *cluster.Sidecar
	api     *httptest.Server
}

// newGates starts the servers of nodes; they serve at addresses.
func newGates(t *testing.T, c *cluster.Cluster, addresses []string) *gates {
	t.Helper()
	g := &gates{T: t, cluster: c}
	for i, address := range addresses {
		g.nodes = append(g.nodes, &gate{id: "cp-" + string(rune('1'+i)), address: address})
	}
	return g
}

// startAPI starts the server that replaces the node's kube-apiserver.
func (g *gates) startAPI(n *gate) {
	g.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(n.address, apiPort))
	if err != nil {
		g.Fatal(err)
	}
	n.api = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte(n.id)); err != nil {
			return // the client left
		}
	}))
	if err := n.api.Listener.Close(); err != nil {
		g.Fatal(err)
	}
	n.api.Listener = listener
	n.api.Start()
	g.Cleanup(n.api.Close)
}

// startSidecar starts the node's sidecar. cfg contains the special settings.
func (g *gates) startSidecar(n *gate, cfg cluster.SidecarConfig) {
	g.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["node"] = &clientcmdapi.Cluster{Server: "http://" + net.JoinHostPort(n.address, apiPort)}
	config.AuthInfos["nobody"] = clientcmdapi.NewAuthInfo()
	config.Contexts["node"] = &clientcmdapi.Context{Cluster: "node", AuthInfo: "nobody"}
	config.CurrentContext = "node"
	noDelay := time.Duration(0)
	cfg.NodeID, cfg.Kubeconfig, cfg.ShutdownDelay = n.id, filepath.Join(g.TempDir(), "kubeconfig"), &noDelay
	cfg.LeaseTTL = 5 * time.Second
	if err := clientcmd.WriteToFile(*config, cfg.Kubeconfig); err != nil {
		g.Fatal(err)
	}
	var err error
	if n.sidecar, err = g.cluster.LaunchSidecar(cfg); err != nil {
		g.Fatal(err)
	}
}

// open writes the status that admits all.
func (g *gates) open() {
	g.Helper()
	g.write(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Minor: 1}}})
}

// write writes a status.
func (g *gates) write(s protocol.Status) {
	g.Helper()
	value, err := status.Encode(s, time.Now())
	if err != nil {
		g.Fatal(err)
	}
	if _, err := g.cluster.Etcd.Client(g.T).Put(g.Context(), statusKey, string(value)); err != nil {
		g.Fatal(err)
	}
}

// sidecarCommand runs a command of the sidecar as people do, and requires that it succeeds.
func (g *gates) sidecarCommand(args ...string) {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), g.cluster.SidecarBinary(), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_ETCD_SERVERS="+strings.Join(g.cluster.Endpoints(), ","))
	if out, err := cmd.CombinedOutput(); err != nil {
		g.Fatalf("sidecar %q: %v: %s", args, err, out)
	}
}

// poll waits until a condition holds.
func poll(t *testing.T, what string, holds func() error) {
	t.Helper()
	cluster.Await(t, what, func(context.Context) error { return holds() })
}

// reached returns which nodes answer n new connections, each once, in order. A
// connection that gets no answer counts as "none".
func reached(url string, n int) []string {
	var out []string
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for range n {
		node, err := answer(client, url)
		if err != nil {
			node = "none"
		}
		out = append(out, node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func answer(client *http.Client, url string) (string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text := make([]byte, 16)
	n, err := resp.Body.Read(text)
	if n == 0 && err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	return string(text[:n]), nil
}
