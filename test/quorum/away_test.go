package quorum

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var awayFor = flag.Duration("quorum.away", 2*time.Second, "how long TestMember_awayUnderLoad keeps each node stopped at least; `make soak CLUSTER=embedded` does it for a minute")

// Each of three nodes is killed in turn while clients write. Meanwhile the other two
// are upgraded, one after another, which needs elections. The third one returns with its
// old release: it catches up with each write that was acknowledged, and its gate is as
// the status requires. The last one returns too old, without a record: its gate is closed
// from its first answer on.
func TestMember_awayUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	before := p.bundle("1.0.0", "1.0.0", "1.0.0")
	a, b, c := p.three(before, before, before)
	p.awaitStatus(a, "DONE 1.0.0 min 1.0.0")
	writes := startLoad(t, a, b, c)
	for _, round := range []upgradeOfTwo{
		{a, []*Node{b, c}, "1.1.0", "1.0.0", "1.0.0"},
		{b, []*Node{c, a}, "1.2.0", "1.1.0", "1.1.0"},
		{c, []*Node{a, b}, "1.3.0", "1.2.0", "1.3.0"},
	} {
		before = p.upgradeWithout(round, before, writes)
	}
	writes.end()
	for _, n := range []*Node{a, b, c} {
		writes.wantAll(t, n, b)
	}
}

// upgradeOfTwo is an upgrade of two nodes while the third one is stopped.
type upgradeOfTwo struct {
	away          *Node
	others        []*Node
	release, m, a string
}

// upgradeWithout carries out one round, and returns the bundle that all nodes use then.
func (p *plane) upgradeWithout(u upgradeOfTwo, before string, writes *load) string {
	p.Helper()
	was, err := u.others[0].Status(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	KillAll(u.away)
	killed := time.Now()
	writes.awaitMore(p.T, 50)
	tooOld := u.a == u.release
	if tooOld { // the leader would wait for this node as long as it is registered
		p.removeRecord(u.others[0], u.away)
	}
	bundle := p.bundle(u.release, u.m, u.a)
	for _, n := range u.others {
		p.restart(n, bundle)
		p.awaitGate(n, "")
	}
	if now := p.awaitStatus(u.others[1], "DONE "+u.release+" min "+u.a); now.Reconciler.Epoch <= was.Reconciler.Epoch {
		p.Errorf("the epoch is %d, and was %d before the upgrade: no node was elected", now.Reconciler.Epoch, was.Reconciler.Epoch)
	}
	for time.Since(killed) < *awayFor {
		writes.awaitMore(p.T, 50)
	}
	p.start(u.away, before)
	gate := watchGates(p.T, map[*Node]int{})
	if tooOld {
		gate = watchGates(p.T, map[*Node]int{u.away: closed})
	}
	awaitVoters(append(u.others, u.away)...)
	writes.wantAll(p.T, u.away, u.others[0])
	if tooOld {
		p.awaitGate(u.away, string(protocol.ReleaseTooOld))
		gate.awaitAsked(10)
	} else {
		p.awaitGate(u.away, "")
	}
	gate.end()
	p.restart(u.away, bundle)
	p.awaitGate(u.away, "")
	return bundle
}

// removeRecord removes the record of a node that was killed, as soon as its lease ends.
func (p *plane) removeRecord(on, killed *Node) {
	p.Helper()
	cluster.Await(p.T, "the record of "+killed.ID+" to be removed", func(context.Context) error {
		out, err := on.tryCommand(p.T, "node", "remove", killed.ID, "--confirm-stopped")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}
