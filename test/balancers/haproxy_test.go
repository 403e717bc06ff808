package balancers_test

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// configuration returns the configuration of the page for nodes at addresses.
func configuration(t *testing.T, bind string, addresses []string) string {
	t.Helper()
	replacements := []string{"bind :6443", "bind " + bind}
	for i, address := range addresses {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6443", 1+i), net.JoinHostPort(address, apiPort))
	}
	text, err := balancers.Block(page, "haproxy", replacements...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startHAProxy starts HAProxy with a configuration, until the test ends.
func startHAProxy(t *testing.T, config, bind string) {
	t.Helper()
	p, err := balancers.StartHAProxy(t.TempDir(), config, bind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(p.Log())
		}
	})
}

// TestHAProxy closes and opens the gates behind HAProxy: new connections go only where the
// gate is open, by plain HTTP and by HTTPS.
func TestHAProxy(t *testing.T) {
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", tls), func(t *testing.T) { haproxy(t, tls) })
	}
}

func haproxy(t *testing.T, tls bool) {
	_ = needsProgram(t, "haproxy")
	addresses, bind := loopback(t, 3)
	var ips []net.IP
	for _, address := range addresses {
		ips = append(ips, net.ParseIP(address))
	}
	c, err := cluster.New(cluster.Config{Assets: cluster.Assets(t, "sidecar"), Dir: t.TempDir(), LogDir: t.ArtifactDir(), Addresses: ips})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	g := newGates(t, c, addresses)
	text, cert, key := configuration(t, bind, addresses), "", ""
	if tls {
		cert, key = c.ServerCertificate()
		text = withTLS(t, text, c.Authority())
	}
	for _, n := range g.nodes {
		g.startAPI(n)
		args := []string{"--apiserver-readyz"}
		if tls {
			args = append(args, "--tls-cert-file="+cert, "--tls-private-key-file="+key)
		}
		g.startSidecar(n, cluster.SidecarConfig{Listen: net.JoinHostPort(n.address, sidecarPort), Args: args})
	}
	startHAProxy(t, text, bind)
	awaitReached := func(want ...string) {
		t.Helper()
		poll(t, fmt.Sprintf("new connections to reach %v only", want), func() error {
			if got := reached("http://"+bind, 12); !slices.Equal(got, want) {
				return fmt.Errorf("got %v", got)
			}
			return nil
		})
	}
	awaitReached("none") // there is no status: all gates are closed
	g.open()
	awaitReached("cp-1", "cp-2", "cp-3")
	g.sidecarCommand("cordon", "cp-2")
	awaitReached("cp-1", "cp-3")
	g.sidecarCommand("uncordon", "cp-2")
	awaitReached("cp-1", "cp-2", "cp-3")
	g.nodes[0].api.Close() // the sidecar goes on: its /readyz fails
	awaitReached("cp-2", "cp-3")
	if err := g.nodes[1].sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitReached("cp-3")
	g.sidecarCommand("cordon", "cp-3", "--force")
	awaitReached("none")
	g.sidecarCommand("uncordon", "cp-3")
	awaitReached("cp-3")
}

// withTLS replaces the line of the servers by the line of the page for HTTPS.
func withTLS(t *testing.T, text, authority string) string {
	t.Helper()
	line, err := balancers.Block(page, "haproxy-tls", "/etc/haproxy/lockstep-ca.crt", authority)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(text, "    default-server ")
	_, after, ended := strings.Cut(after, "\n")
	if !found || !ended {
		t.Fatalf("the configuration has no default-server:\n%s", text)
	}
	return before + line + after
}

// loopback returns addresses for nodes, and an address with its port for the balancer.
func loopback(t *testing.T, n int) (addresses []string, bind string) {
	t.Helper()
	addresses, err := cluster.NodeAddresses(n + 1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[:n], net.JoinHostPort(addresses[n], apiPort)
}

// TestHAProxy_timeouts: the configuration ends no watch before kube-apiserver does, which
// is after an hour at most.
func TestHAProxy_timeouts(t *testing.T) {
	text, err := balancers.Block(page, "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ *timeout (\w+) +(\w+)$`).FindAllStringSubmatch(text, -1)
	long := 0
	for _, m := range found {
		d, err := time.ParseDuration(m[2])
		if err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
		if slices.Contains([]string{"client", "server", "tunnel"}, m[1]) {
			long++
			if d < 2*time.Hour {
				t.Errorf("%s: ends watches", m[0])
			}
		}
	}
	if long < 2 {
		t.Errorf("got the timeouts %q, want one of the client and one of the server", found)
	}
}
