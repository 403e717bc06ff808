package quorum

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Two of three members stop answering, or two of three nodes are killed: no write is
// acknowledged, nothing leads, and each gate that can be asked stays as it is: a's and b's
// open, and c's closed, since it is too old. When one of them is back, the cluster goes on.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	newer := p.bundle("1.1.0", "1.1.0", "1.1.0")
	older := p.bundle("1.0.0", "1.0.0", "1.0.0")
	a, b, c := p.three(newer, newer, older)
	p.awaitStatus(a, "DONE 1.1.0 min 1.1.0")
	gate := map[*Node]int{a: open, b: open, c: closed}
	settled := func() {
		p.awaitGate(a, "")
		p.awaitGate(b, "")
		p.awaitGate(c, string(protocol.ReleaseTooOld))
		awaitVoters(a, b, c)
	}
	settled()
	kill := func(survivor *Node, bundles map[*Node]string, lost ...*Node) outage {
		return outage{
			survivors: []*Node{survivor},
			begin:     func() { KillAll(lost...) },
			oneBack:   func() { p.start(lost[0], bundles[lost[0]]) },
			allBack:   func() { p.start(lost[1], bundles[lost[1]]) },
		}
	}
	bundles := map[*Node]string{a: newer, b: newer, c: older}
	for name, o := range map[string]outage{
		"the members of b and c are paused": {
			survivors: []*Node{a, b, c},
			begin:     func() { b.signalMember(syscall.SIGSTOP); c.signalMember(syscall.SIGSTOP) },
			oneBack:   func() { b.signalMember(syscall.SIGCONT) },
			allBack:   func() { c.signalMember(syscall.SIGCONT) },
		},
		"a and b are killed": kill(c, bundles, a, b),
		"b and c are killed": kill(a, bundles, b, c),
	} {
		t.Log(name)
		p.outage(o, gate, a, b, c)
		settled()
	}
}

// outage is an outage of a majority.
type outage struct {
	survivors               []*Node // whose sidecars run meanwhile
	begin, oneBack, allBack func()
}

func (p *plane) outage(o outage, gate map[*Node]int, all ...*Node) {
	p.Helper()
	before := startLoad(p.T, all...)
	before.awaitMore(p.T, 20)
	before.end()
	survivor := o.survivors[0]
	o.begin()
	want := map[*Node]int{}
	for _, n := range o.survivors {
		want[n] = gate[n]
	}
	watched := watchGates(p.T, want)
	lost := startLoad(p.T, all...)
	for _, n := range o.survivors {
		p.awaitDisconnected(n)
	}
	at := applied(p.T, survivor)
	cluster.Await(p.T, "refused writes", func(context.Context) error {
		if n := lost.attempts.Load(); n < 10 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	watched.awaitAsked(200)
	if n := lost.count(); n > 0 {
		p.Errorf("%d writes were acknowledged without a majority", n)
	}
	if now := applied(p.T, survivor); now != at {
		p.Errorf("the member of %s had applied %d, and now %d", survivor.ID, at, now)
	}
	o.oneBack()
	lost.awaitMore(p.T, 20)
	watched.awaitAsked(20)
	watched.end()
	o.allBack()
	awaitVoters(all...)
	for _, n := range all {
		before.wantAll(p.T, n, survivor)
	}
	lost.end()
}

// awaitDisconnected waits until a node shows that its etcd does not answer, and does not
// lead.
func (p *plane) awaitDisconnected(n *Node) {
	p.Helper()
	cluster.Await(p.T, n.ID+" to notice that etcd does not answer", func(ctx context.Context) error {
		s, err := n.Status(ctx)
		if err == nil && (s.Etcd.Connected || s.Election.State == "leading") {
			err = fmt.Errorf("connected %t, %s", s.Etcd.Connected, s.Election.State)
		}
		return err
	})
}

// applied returns the index up to which the node's own member applied the log.
func applied(t *testing.T, n *Node) uint64 {
	t.Helper()
	status, err := n.Client().MemberStatus(t.Context(), n.Marker().ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return status.Applied
}

func (n *Node) signalMember(signal syscall.Signal) {
	n.rig.t.Helper()
	pid := 0
	cluster.Await(n.rig.t, "the member of "+n.ID+" to run", func(context.Context) error {
		if pid = n.MemberPID(); pid == 0 {
			return errors.New("there is no process") // its sidecar is about to start it again
		}
		return nil
	})
	if err := syscall.Kill(pid, signal); err != nil {
		n.rig.t.Fatal(err)
	}
}
