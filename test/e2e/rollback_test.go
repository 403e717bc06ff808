package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// backPlan is what `sidecar plan --rollback -o json` announces.
type backPlan struct{ Steps []backStep }

type backStep struct {
	Node         string
	While, After backMoment
}

type backMoment struct {
	State, Version string
	Nodes          []struct {
		ID, Reason string
		Alive      bool
		Ready      bool
	}
}

// gates describes the gates of the nodes that are alive, as in "cp-1 open, cp-2 ReleaseTooOld".
func (m backMoment) gates() string {
	var out []string
	for _, n := range m.Nodes {
		switch {
		case !n.Alive:
		case n.Ready:
			out = append(out, n.ID+" open")
		default:
			out = append(out, n.ID+" "+n.Reason)
		}
	}
	return strings.Join(out, ", ")
}

// closed returns the nodes that are alive with a closed gate.
func (m backMoment) closed() (out []string) {
	for _, n := range m.Nodes {
		if n.Alive && !n.Ready {
			out = append(out, n.ID)
		}
	}
	return out
}

// TestRollback_forced goes back from a release that raised both constraints: no node of it fits
// the old objects. `rollback begin` refuses and says why. With --force the gates are closed that
// `plan --rollback` announced, at each step and no others, also when the leader and a member of etcd
// are killed in between; at the end all are open.
func TestRollback_forced(t *testing.T) {
	t.Parallel()
	c := cluster.NewWithMembersForTest(t, 3, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{T: t, c: c, api: api, dir: t.TempDir(), sidecars: map[string]*cluster.Sidecar{}}
	raised := b.bundle("1.1.0", "release: 1.1.0\nminReconcilerRelease: 1.1.0\nminApiserverRelease: 1.1.0")
	back := b.bundle("1.0.0", "release: 1.0.0\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.0.0")
	nodes := []string{"cp-1", "cp-2", "cp-3"}
	for _, node := range nodes {
		b.start(node, raised)
	}
	b.ready(nodes...)

	out, err := b.sidecar("rollback", "begin", "--to=1.0.0")
	if err == nil || !strings.Contains(out, "no node of a newer release fits the objects of release 1.0.0 (cp-1 needs 1.1.0 or newer, ") {
		t.Errorf("without --force: got %s, %v", out, err)
	}
	plan := b.backPlan(back)
	since := b.mark()
	out, err = b.sidecar("rollback", "begin", "--to=1.0.0", "--force")
	if err != nil || !strings.Contains(out, "each of cp-1, cp-2, cp-3 closes its gate when it restarts with 1.0.0, until the last of them has restarted") {
		t.Fatalf("with --force: got %s, %v", out, err)
	}
	for i, step := range plan.Steps {
		b.must(b.sidecars[step.Node].Stop())
		b.wantGates(step.While)
		b.start(step.Node, back)
		b.wantGates(step.After)
		if i == 1 { // the node that went back first leads
			leader, member := plan.Steps[0].Node, c.Members[0]
			b.must(errors.Join(b.sidecars[leader].Kill(), member.Process().Kill()))
			b.start(leader, back)
			b.wantGates(step.After)
			b.must(member.Restart())
		}
	}
	closings := b.closings(since)
	for _, node := range nodes {
		if closings[node] != 1 {
			t.Errorf("the gate of %s was closed %d times, want once, from its restart on", node, closings[node])
		}
	}
	b.says(plan.Steps[0].Node, "STATUS|DONE, release 1.0.0, minimum release 1.0.0", "UPGRADE|the next upgrade may start")
}

// backPlan returns the announcement, which has to close the gate of each node that has gone
// back until the last step.
func (b *broken) backPlan(dir string) (plan backPlan) {
	b.Helper()
	out, err := b.sidecar("plan", "--rollback", "--bundle="+dir, "-o=json")
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() != 3) {
		b.Fatalf("plan: %v: %s", err, out)
	}
	b.must(json.NewDecoder(strings.NewReader(out)).Decode(&plan))
	if len(plan.Steps) != 3 {
		b.Fatalf("the plan has %d steps, want one for each node: %s", len(plan.Steps), out)
	}
	var gone []string
	for i, step := range plan.Steps {
		gone = append(gone, step.Node)
		want := slices.Sorted(slices.Values(gone))
		if i == 2 {
			want = nil
		}
		if got := step.After.closed(); !slices.Equal(got, want) {
			b.Errorf("after %s, the plan announces closed gates of %v, want %v", step.Node, got, want)
		}
	}
	return plan
}

// sidecar runs a command that reaches etcd.
func (b *broken) sidecar(args ...string) (string, error) {
	b.Helper()
	program := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	out, err := exec.CommandContext(b.Context(), program, append(args, "--etcd-servers="+strings.Join(b.c.Endpoints(), ","))...).CombinedOutput()
	return string(out), err
}

// wantGates waits until the status and all gates are as announced.
func (b *broken) wantGates(m backMoment) {
	b.Helper()
	cluster.Await(b.T, "what the plan announces: "+m.State+" "+m.Version+": "+m.gates(), func(ctx context.Context) error {
		got := m
		got.Nodes = slices.Clone(m.Nodes)
		for i, n := range got.Nodes {
			if !n.Alive {
				continue
			}
			s, err := b.sidecars[n.ID].Status(ctx)
			if err != nil {
				return err
			}
			got.Nodes[i].Ready, got.Nodes[i].Reason = s.Ready.Ready, string(s.Ready.Reason)
			got.State, got.Version = s.Reconciler.State, s.Reconciler.Version
		}
		if got.gates() != m.gates() || got.State != m.State || got.Version != m.Version {
			return fmt.Errorf("%s %s: %s", got.State, got.Version, got.gates())
		}
		return nil
	})
}

// mark writes a key, and returns its revision.
func (b *broken) mark() int64 {
	b.Helper()
	resp, err := b.etcd().Put(b.Context(), "mark", "")
	b.must(err)
	return resp.Header.Revision
}

// closings counts how often since a revision a presence with an open gate became one with a
// closed gate, or one of a new sidecar with a closed gate.
func (b *broken) closings(since int64) map[string]int {
	b.Helper()
	presences := keyspace.Under("/lockstep/").Presences()
	client, until := b.etcd(), b.mark()
	before, err := client.Get(b.Context(), presences, clientv3.WithPrefix(), clientv3.WithRev(since))
	b.must(err)
	open := map[string]bool{}
	for _, kv := range before.Kvs {
		open[strings.TrimPrefix(string(kv.Key), presences)] = b.isOpen(kv.Value)
	}
	if want := map[string]bool{"cp-1": true, "cp-2": true, "cp-3": true}; !maps.Equal(open, want) {
		b.Errorf("at first, the open gates are %v", open)
	}
	closings := map[string]int{}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for resp := range client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(since+1)) {
		b.must(resp.Err())
		for _, e := range resp.Events {
			node, is := strings.CutPrefix(string(e.Kv.Key), presences)
			switch {
			case e.Kv.ModRevision >= until:
				return closings
			case !is || e.Type == clientv3.EventTypeDelete:
			case b.isOpen(e.Kv.Value):
				open[node] = true
			case open[node]:
				open[node] = false
				closings[node]++
			}
		}
	}
	b.Fatal("the watch has ended")
	return nil
}

func (b *broken) isOpen(presence []byte) bool {
	b.Helper()
	var p lockstepv1.Presence
	b.must(proto.Unmarshal(presence, &p))
	return p.GetReady()
}
