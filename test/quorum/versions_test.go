package quorum

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestVersions upgrades Lockstep itself, node by node, from the program of the last release to this one, each
// with a release of a platform, and back: beside the etcd that the sidecars run, and beside another one. Every
// gate of a node that is not being restarted stays open, and no acknowledged write is lost.
func TestVersions(t *testing.T) {
	t.Parallel()
	old := cluster.BuildBefore(t)
	t.Run("embedded", func(t *testing.T) { versionsEmbedded(t, old) })
	t.Run("external", func(t *testing.T) { versionsExternal(t, old) })
}

// releases are the bundles of two releases of which any node fits the objects of the other one.
func (p *plane) releases() (first, second string) {
	return p.bundle("1.0.0", "1.0.0", "1.0.0"), p.bundle("1.1.0", "1.0.0", "1.0.0")
}

// roll restarts one node after another, while the gates of all others stay open, until all show a status.
func (p *plane) roll(all []*Node, restart func(*Node), status string) {
	p.Helper()
	for _, n := range all {
		p.awaitGate(n, "")
	}
	for _, n := range all {
		others := map[*Node]int{}
		for _, o := range all {
			if o != n {
				others[o] = open
			}
		}
		gate := watchGates(p.T, others)
		if err := n.Stop(); err != nil {
			p.Fatal(err)
		}
		restart(n)
		p.awaitGate(n, "")
		gate.end()
	}
	for _, n := range all {
		p.awaitStatus(n, status)
	}
}

func versionsEmbedded(t *testing.T, old string) {
	p := newPlane(t)
	now, before := p.rig, New(t, old)
	before.Kubeconfig, p.rig = now.Kubeconfig, before
	first, second := p.releases()
	a, b, c := p.three(first, first, first)
	all := []*Node{a, b, c}
	writes := startLoad(t, all...)
	to := func(rig *Rig, bundle string) func(*Node) {
		return func(n *Node) {
			n.rig = rig
			p.start(n, bundle)
			awaitVoters(all...)
		}
	}
	p.roll(all, to(now, second), "DONE 1.1.0 min 1.0.0")
	writes.awaitMore(t, 20)
	p.roll(all, to(before, first), "DONE 1.0.0 min 1.0.0")
	writes.awaitMore(t, 20)
	writes.end()
	writes.wantAll(t, a, b)
	// A node of this program joins at a member of the last release.
	d := now.Node("d")
	p.start(d, append(joinArgs(t, a, 1), first)...)
	awaitVoters(a, b, c, d)
}

func versionsExternal(t *testing.T, old string) {
	now := cluster.NewForTest(t)
	api, err := now.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := cluster.Attach(cluster.Config{Assets: cluster.Assets(t, "sidecar"), Dir: t.TempDir(), SidecarBinary: old, LogDir: t.ArtifactDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, before) })
	p := &plane{T: t}
	first, second := p.releases()
	all := []*Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	to := func(by *cluster.Cluster, bundle string) func(*Node) {
		return func(n *Node) {
			n.Sidecar, err = by.StartSidecar(cluster.SidecarConfig{
				NodeID: n.ID, Kubeconfig: api.Kubeconfig(), EtcdServers: now.Endpoints(), LeaseTTL: 3 * time.Second, Args: []string{bundle},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range all {
		to(before, first)(n)
	}
	p.roll(all, to(now, second), "DONE 1.1.0 min 1.0.0")
	p.roll(all, to(before, first), "DONE 1.0.0 min 1.0.0")
}
