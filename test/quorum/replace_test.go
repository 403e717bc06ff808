package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The data directory of a node is lost. It is replaced as docs/clusters.md#replace
// describes: the commands of the page are read and typed.
func TestReplace(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	bundle := p.bundle("1.0.0", "1.0.0", "1.0.0")
	a, b, c := p.three(bundle, bundle, bundle)
	p.awaitStatus(a, "DONE 1.0.0 min 1.0.0")
	writes := startLoad(t, a, b, c)
	writes.awaitMore(t, 50)
	old := c.Marker()
	// Its etcd is stopped for a while. Each node names the problem and the node, and none
	// proposes to remove it: its sidecar is alive, so the command refuses, too.
	c.signalMember(syscall.SIGSTOP)
	for _, n := range []*Node{a, b, c} {
		awaitTrouble(t, n, c.ID)
	}
	cluster.Await(t, "the command to refuse", func(context.Context) error {
		out, err := a.tryCommand(t, "cluster", "remove", c.ID)
		if err == nil {
			t.Fatalf("a member whose sidecar is alive was removed: %s", out)
		}
		if !strings.Contains(out, "its sidecar is alive") || !strings.Contains(out, "--force") {
			return errors.New(out) // etcd of a busy machine may not answer in time
		}
		return nil
	})
	c.signalMember(syscall.SIGCONT)
	wantMembersOf(t, a, "a", "b", "c")
	KillAll(c)
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
	steps := wantSteps(t, "replace", "On a node that is a member:", "There:", "On the new node, with an empty data directory, type the command that step 2 printed")
	steps[0].typeStep(t, a, "ID", c.ID)
	printed := steps[1].typeStep(t, a, "ID", c.ID)
	p.start(c, append(printedRun(t, printed), bundle)...)
	awaitVoters(a, b, c)
	writes.awaitMore(t, 50)
	writes.end()
	writes.wantAll(t, c, a)
	p.awaitGate(c, "")
	if now := c.Marker(); now.MemberID == old.MemberID || now.Cluster != old.Cluster {
		t.Errorf("got the member %s of cluster %s, before %s of %s", now.MemberID, now.Cluster, old.MemberID, old.Cluster)
	}
	wantMembersOf(t, a, "a", "b", "c")
}

// awaitTrouble waits until a node names the problem of the etcd member of one whose sidecar runs.
func awaitTrouble(t *testing.T, n *Node, patient string) {
	t.Helper()
	says := regexp.MustCompile(`(?m)^` + patient + ` +\d+s +its sidecar runs, its etcd member \(.*\) does not serve: its process runs, and does not answer`)
	if n.ID == patient {
		says = regexp.MustCompile(`(?m)^` + patient + ` +\d+s +its etcd member cannot be used: its process runs, and does not answer`)
	}
	cluster.Await(t, n.ID+" to say what is wrong with "+patient, n.OnChange(func(context.Context) error {
		out, err := n.tryCommand(t, "status", "--server", n.URL())
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s", err, out)
		case strings.Contains(out, "cluster remove"):
			t.Errorf("%s proposes to remove a member whose sidecar is alive:\n%s", n.ID, out)
		case !says.MatchString(out):
			return fmt.Errorf("got\n%s", out)
		}
		return nil
	}))
}

// wantMembersOf requires that etcd contains exactly one record of a member for each node, and
// no learner.
func wantMembersOf(t *testing.T, on *Node, nodes ...string) {
	t.Helper()
	awaitNumber(t, on, len(nodes))
	cluster.Await(t, "the members to be those of the nodes", func(context.Context) error {
		var got []string
		for _, m := range membersOf(t, on) {
			got = append(got, m.Node)
			if m.Role != "voter" || !m.Healthy {
				return fmt.Errorf("%+v", m)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, nodes) {
			return fmt.Errorf("got %v, want %v", got, nodes)
		}
		return nil
	})
	c := on.Client()
	if got := on.Keys(c, "/lockstep/cluster/members/"); len(got) != len(nodes) {
		t.Errorf("etcd has the records %v, want %d", got, len(nodes))
	}
	if got := on.Keys(c, "/lockstep/cluster/learners/"); len(got) != 0 {
		t.Errorf("etcd has the learners %v", got)
	}
}

// The majority of the members is lost for good. The cluster is restored as
// docs/clusters.md#restore describes: the commands of the page are read and typed. The
// records are as they were in the snapshot, the leader rebuilds the status, later writes are
// lost, and a member of the old cluster that starts again changes nothing.
func TestRestore(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	bundle := p.bundle("1.0.0", "1.0.0", "1.0.0")
	a, b, c := p.three(bundle, bundle, bundle)
	before := p.awaitStatus(a, "DONE 1.0.0 min 1.0.0")
	a.Put(a.Client(), "/test/saved", "x")
	file := filepath.Join(t.TempDir(), "snapshot")
	a.command(t, "cluster", "snapshot", file)
	b.Put(b.Client(), "/test/later", "x")
	old := a.Marker()

	KillAll(b, c)
	returns := *c // its directory is not lost
	if err := os.RemoveAll(b.Dir); err != nil {
		t.Fatal(err)
	}
	gate := watchGates(t, map[*Node]int{a: open})
	p.awaitDisconnected(a)
	gate.end()
	if out, err := a.tryCommand(t, "cluster", "token", "create"); err == nil || !strings.Contains(out, "sidecar cluster restore lockstep.snapshot --confirm-stopped --data-dir="+a.Dir+";") {
		t.Errorf("without a majority: %v: %s", err, out)
	}
	newest := filepath.Join(t.TempDir(), "newest")
	if out := a.command(t, "cluster", "snapshot", newest); !strings.Contains(out, "the newest writes may be missing") {
		t.Errorf("without a majority: %s", out)
	}

	steps := wantSteps(t, "restore", "Stop the sidecars on all nodes.", "On one node that was a member, also if it has none any more:", "Start the sidecar on that node.",
		"On each other node, also one without a member, delete the data directory, and let the node join with a new token.", "`sidecar node remove NODE --confirm-stopped` for nodes that are off for good.")
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	steps[1].typeStep(t, a, "FILE", file)
	p.start(a, bundle)
	a.AwaitRunning()
	p.awaitGate(a, "")
	d := p.rig.Node("d")
	for _, n := range []*Node{b, d} {
		printed := a.command(t, "cluster", "token", "create", "--node", n.ID)
		p.start(n, append(printedRun(t, printed), bundle)...)
	}
	awaitVoters(a, b, d)
	steps[4].typeStep(t, a, "NODE", c.ID)

	for _, n := range []*Node{a, b, d} {
		p.awaitGate(n, "")
		p.awaitRecords(n, "a", "b", "d")
		if now := p.awaitStatus(n, "DONE 1.0.0 min 1.0.0"); now.Etcd.Revision < 1_000_000_000 || now.Reconciler.Epoch < before.Reconciler.Epoch {
			t.Errorf("%s: revision %d, epoch %d, before %d and %d", n.ID, now.Etcd.Revision, now.Reconciler.Epoch, before.Etcd.Revision, before.Reconciler.Epoch)
		}
	}
	if got := a.Keys(a.Client(), "/test/"); !slices.Equal(got, []string{"/test/saved"}) {
		t.Errorf("got %v, want what the snapshot has", got)
	}
	if now := a.Marker(); now.Cluster == old.Cluster || now.EtcdClusterID == old.EtcdClusterID || now.Restores != 1 {
		t.Errorf("got %+v, before %+v", now, old)
	}
	wantMembersOf(t, a, "a", "b", "d")
	p.start(&returns, bundle)
	returns.AwaitCluster("to wait, without its old cluster", func(now Cluster) error {
		if now.State != "RestartingMember" || !strings.Contains(now.Error, "this directory is of before that") {
			return fmt.Errorf("got %+v", now)
		}
		return nil
	})
	wantMembersOf(t, a, "a", "b", "d")
	p.awaitGate(a, "")
}

// After a restore, nodes start with their directories of before, one with a member and one
// without: the restored cluster answers both. Each waits, and names a command. Typed, the
// commands make a cluster that survives a power failure.
func TestRestore_directoriesOfBefore(t *testing.T) {
	t.Parallel()
	all := newMembers(t, "", 3)
	a, b, d := all[0], all[1], all[2]
	setMember(t, a, d, false)
	wantWithoutMember(t, d)
	file := filepath.Join(t.TempDir(), "snapshot")
	a.command(t, "cluster", "snapshot", file)
	for _, n := range []*Node{d, b, a} {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	a.command(t, "cluster", "restore", file, "--confirm-stopped")
	a.Start()
	a.AwaitRunning()
	for _, n := range []*Node{b, d} {
		n.Start()
		n.AwaitCluster("to wait with what to type", func(now Cluster) error {
			if now.State != "RestartingMember" || !strings.Contains(now.Error, "this directory is of before that: stop this sidecar, type `mv "+n.Dir+" "+n.Dir+".old`") {
				return fmt.Errorf("got %+v", now)
			}
			return nil
		})
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(n.Dir, n.Dir+".old"); err != nil {
			t.Fatal(err)
		}
		n.Start(joinArgs(t, a, 1)...)
		n.AwaitRunning()
	}
	awaitVoters(all...)
	wantText(t, a.command(t, "node", "set-roles", d.ID, "--add", protocol.RoleConsensus), "already has the roles")
	KillAll(all...)
	for _, n := range all {
		n.Start()
	}
	awaitVoters(all...)
}

// Only a node survived that is no longer a member. Restored there, it is a member that stays, and
// another node joins it.
func TestRestore_nodeWithoutRole(t *testing.T) {
	t.Parallel()
	all := newMembers(t, "", 2)
	a, d := all[0], all[1]
	setMember(t, a, d, false)
	wantWithoutMember(t, d)
	file := filepath.Join(t.TempDir(), "snapshot")
	a.command(t, "cluster", "snapshot", file)
	KillAll(a)
	if err := errors.Join(d.Stop(), os.RemoveAll(a.Dir)); err != nil {
		t.Fatal(err)
	}
	d.command(t, "cluster", "restore", file, "--confirm-stopped")
	d.Start()
	d.AwaitRunning()
	args := joinArgs(t, d, 1)
	a.Start(args...)
	awaitVoters(a, d)
	if got := d.Marker().Phase; got != datadir.Member {
		t.Errorf("got the phase %s", got)
	}
}

// A node gets another address. It is restored with that, and another node joins it there.
func TestRestore_otherAddress(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	a, b := rig.Node("a"), rig.Node("b")
	a.Start()
	a.AwaitRunning()
	file := filepath.Join(t.TempDir(), "snapshot")
	a.command(t, "cluster", "snapshot", file)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	a.Address = rig.Node("moved").Address
	a.Refused()
	a.command(t, "cluster", "restore", file, "--confirm-stopped", "--node-address="+a.Address)
	a.Start()
	a.AwaitRunning()
	b.Start(joinArgs(t, a, 1)...)
	awaitVoters(a, b)
	if got := a.Marker().Address; got != a.Address {
		t.Errorf("got the address %s, want %s", got, a.Address)
	}
}

// The status in a snapshot is older than the objects, and may admit nodes that do not
// fit them. So no gate opens before the leader rebuilds it from the objects.
func TestRestore_statusIsRebuilt(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.rig.Node("a")
	p.start(a)
	p.awaitGate(a, "")
	file := filepath.Join(t.TempDir(), "snapshot")
	a.command(t, "cluster", "snapshot", file)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	a.command(t, "cluster", "restore", file, "--confirm-stopped")

	api := p.rig.Kubeconfig
	p.rig.Kubeconfig = New(t, "").Kubeconfig // of one that does not answer
	p.start(a)
	a.AwaitRunning()
	p.awaitGate(a, "StatusMissing")
	p.rig.Kubeconfig = api
	p.restart(a)
	p.awaitGate(a, "")
}

// awaitRecords waits until exactly these nodes are registered, as a node shows them.
func (p *plane) awaitRecords(n *Node, want ...string) {
	p.Helper()
	cluster.Await(p.T, n.ID+" to show the records of the nodes", func(ctx context.Context) error {
		now, err := n.Status(ctx)
		var got []string
		for _, r := range now.Fleet.Nodes {
			got = append(got, r.ID)
		}
		if slices.Sort(got); err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got %v, want %v", got, want)
		}
		return err
	})
}
