package balancers_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

const virtual = "10.89.0.100"

// TestKeepalived runs keepalived on three machines with the configuration of the page. The
// address leaves a node whose gate closes, stays away when it opens again, and is on no
// node while all gates are closed.
func TestKeepalived(t *testing.T) {
	program := needsProgram(t, "keepalived")
	assets := cluster.Assets(t, "sidecar")
	if !netns.Enter(t) {
		return
	}
	network := netns.New(t, "cp-1", "cp-2", "cp-3")
	c, err := cluster.New(cluster.Config{
		Assets: assets, Dir: t.TempDir(), LogDir: t.ArtifactDir(),
		Etcd: etcdtest.Config{Addr: net.JoinHostPort(netns.Hub.String(), "2379")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	var addresses []string
	for _, ip := range netns.Addresses(3) {
		addresses = append(addresses, ip.String())
	}
	k := &keepalives{gates: newGates(t, c, addresses), network: network}
	g := k.gates
	g.open()
	for _, n := range g.nodes {
		g.startSidecar(n, cluster.SidecarConfig{
			Listen: net.JoinHostPort("0.0.0.0", sidecarPort), Args: []string{"--insecure-listen"}, Wrapper: network.Machine(n.id).Wrapper(),
		})
		k.start(program, n)
	}

	first := k.awaitHolder(g.nodes...)
	g.sidecarCommand("cordon", first.id)
	others := slices.DeleteFunc(slices.Clone(g.nodes), func(n *gate) bool { return n == first })
	second := k.awaitHolder(others...)
	g.sidecarCommand("uncordon", first.id)
	if err := second.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	third := k.awaitHolder(slices.DeleteFunc(slices.Clone(g.nodes), func(n *gate) bool { return n == second })...)
	for _, n := range g.nodes {
		if n != second {
			g.sidecarCommand("cordon", n.id, "--force")
		}
	}
	k.awaitNone()
	g.sidecarCommand("uncordon", third.id)
	if again := k.awaitHolder(third); again != third {
		t.Errorf("got %s, want %s, the only one with an open gate", again.id, third.id)
	}
}

// keepalives are keepalived on machines.
type keepalives struct {
	*gates
	network *netns.Network
}

func (k *keepalives) start(program string, n *gate) {
	k.Helper()
	dir := k.TempDir()
	text, err := balancers.Block(page, "keepalived", "/usr/bin/sidecar", k.cluster.SidecarBinary(), "10.0.0.100/24", virtual+"/24")
	file := filepath.Join(dir, "keepalived.conf")
	if err := errors.Join(err, os.WriteFile(file, []byte(text), 0o600)); err != nil {
		k.Fatal(err)
	}
	p, err := balancers.Start(filepath.Join(dir, "keepalived.log"), append(k.network.Machine(n.id).Wrapper(), program,
		"-n", "-l", "-D", "-f", file, "-p", filepath.Join(dir, "pid"), "-r", filepath.Join(dir, "vrrp.pid"))...)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		if err := p.Stop(); err != nil {
			k.Error(err)
		}
		if k.Failed() {
			k.Logf("keepalived of %s:\n%s", n.id, p.Log())
		}
	})
}

// holders returns the nodes that hold the virtual address.
func (k *keepalives) holders() []*gate {
	k.Helper()
	var out []*gate
	for _, n := range k.nodes {
		line := append(k.network.Machine(n.id).Wrapper(), "ip", "-o", "addr", "show")
		text, err := exec.CommandContext(k.Context(), line[0], line[1:]...).CombinedOutput()
		if err != nil {
			k.Fatalf("addresses of %s: %v: %s", n.id, err, text)
		}
		if strings.Contains(string(text), " "+virtual+"/") {
			out = append(out, n)
		}
	}
	return out
}

// awaitHolder waits until one of these nodes alone holds the address, and clients reach it
// there.
func (k *keepalives) awaitHolder(of ...*gate) *gate {
	k.Helper()
	var found *gate
	poll(k.T, "one node to have the address", func() error {
		now := k.holders()
		if len(now) != 1 || !slices.Contains(of, now[0]) {
			return fmt.Errorf("%d nodes have it: %v", len(now), ids(now))
		}
		found = now[0]
		if got := reached("http://"+net.JoinHostPort(virtual, sidecarPort)+"/readyz", 1); got[0] != "ok" {
			return fmt.Errorf("the answer there is %v", got)
		}
		return nil
	})
	return found
}

func (k *keepalives) awaitNone() {
	k.Helper()
	poll(k.T, "no node to have the address", func() error {
		if now := k.holders(); len(now) > 0 {
			return fmt.Errorf("%v have it", ids(now))
		}
		return nil
	})
}

func ids(nodes []*gate) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.id)
	}
	return out
}
