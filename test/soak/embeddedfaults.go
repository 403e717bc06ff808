package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// replacing is the limit for a member whose disk was lost to be replaced. Meanwhile
// other sidecars, and their members with them, may be stopped.
const replacing = 4 * time.Minute

// crash is how a sidecar is killed: alone, and its member ends by itself, or both at the
// same moment, as in a power failure.
func (f fault) crash() func(*cluster.Sidecar) error {
	if f.how%2 == 0 {
		return crashing
	}
	return losingPower
}

// losingPower returns when both ended. The sidecar is paused first, so that it does
// not start another member meanwhile.
func losingPower(s *cluster.Sidecar) error {
	err := s.Signal(syscall.SIGSTOP)
	pid, found := s.Child()
	err = errors.Join(err, found, s.Kill(), kill(pid, syscall.SIGKILL))
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(err, cluster.Poll(ctx, func(context.Context) error { return cluster.HasEnded(pid) }))
}

// kill sends a signal to a process that may be dead; 0: there is none.
func kill(pid int, sig syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d: %w", pid, err)
	}
	return nil
}

// stopChildren pauses or kills one member, or two of three. A sidecar starts its member
// again.
func (w *world) stopChildren(ctx context.Context, f fault) outcome {
	pids, stopped := w.membersFor(f)
	if len(pids) == 0 || slices.Contains(pids, 0) {
		return skipped
	}
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			if err := kill(pid, sig); err != nil {
				w.logf("%v", err)
			}
		}
	}
	if f.kind == killMember || f.kind == loseQuorum && f.how%2 == 0 {
		signal(syscall.SIGKILL)
	} else {
		signal(syscall.SIGSTOP)
		up := w.down(stopped...)
		pause(ctx, f.lasts)
		up()
		signal(syscall.SIGCONT)
	}
	w.awaitQuorum(ctx)
	return done
}

// membersFor returns the processes of the members for a fault, and their nodes. One that
// is missing is 0, unless roles are moved: then its node may be no member now.
func (w *world) membersFor(f fault) (pids []int, nodes []*node) {
	numbers := []int{f.member}
	for i := 0; f.kind == loseQuorum && i < w.shape.members/2; i++ {
		numbers = append(numbers, (f.member+1+i)%w.shape.members)
	}
	for _, i := range numbers {
		s := w.nodes[i].running()
		if s == nil {
			continue
		}
		pid, err := s.Child()
		if err != nil {
			w.logf("%v", err)
		}
		if w.shape.moves && pid == 0 {
			continue // it is no member now
		}
		pids, nodes = append(pids, pid), append(nodes, w.nodes[i])
	}
	return pids, nodes
}

// awaitQuorum returns when each member that should run answers a linearizable read: the
// next fault of etcd starts only then. It also works after ctx ended.
func (w *world) awaitQuorum(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for i, n := range w.nodes[:w.shape.members] {
		err := cluster.Poll(ctx, func(ctx context.Context) error {
			s := n.running()
			if s == nil {
				return nil
			}
			if pid, err := s.Child(); w.shape.moves && pid == 0 {
				return err // it is no member now
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := w.rec.clients[i].Get(ctx, "await")
			return err
		})
		if err != nil {
			w.logf("await the member of %s: %v", n.name(), err)
		}
	}
}

// links are the ways of packets from nodes to others.
type links map[string][]string

// direction selects the packets between two nodes that are dropped.
type direction int

// The directions, as seen by the node of the fault.
const (
	bothWays direction = iota
	outgoing
	incoming
	nDirections = iota
)

func (d direction) String() string {
	return [nDirections]string{"both ways", "what it sends", "what it receives"}[d]
}

func (f fault) direction() direction { return direction(f.how % nDirections) }

// The nodes that a node is cut off from. If all are cut off from each other, no member
// reaches a majority.
const (
	fromOne = iota
	fromOthers
	allFromAll
	nParts = iota
)

func (f fault) part() int { return f.how / nDirections % nParts }

// another is the node at the other end, if the fault is between two.
func (f fault) another() int {
	return (f.node + 1 + f.how/(nDirections*nParts)%(f.nodes-1)) % f.nodes
}

func (f fault) describeNodes() string {
	who := nodeNames[f.node]
	if f.kind == loseSomePackets {
		who += fmt.Sprintf(", for %s of each %s", f.slow/2, f.slow)
	}
	switch {
	case f.part() == allFromAll:
		return "all from all, both ways"
	case f.part() == fromOne:
		return fmt.Sprintf("%s from %s, %s", who, nodeNames[f.another()], f.direction())
	}
	return fmt.Sprintf("%s from all others, %s", who, f.direction())
}

// impairNodes cuts nodes off from each other, all the time or again and again. The test itself
// reaches all of them.
func (w *world) impairNodes(ctx context.Context, f fault) outcome {
	n := w.nodes[f.node]
	l := links{}
	switch f.part() {
	case allFromAll:
		for _, from := range w.nodes {
			l.add(from, w.nodes, outgoing)
		}
	case fromOne:
		l.add(n, []*node{w.nodes[f.another()]}, f.direction())
	default:
		l.add(n, w.nodes, f.direction())
	}
	if f.kind == cutNodes {
		return w.cutWhile(ctx, l, f.lasts)
	}
	return w.loseSome(ctx, l, f)
}

// add adds the links between a node and others.
func (l links) add(n *node, others []*node, d direction) {
	for _, other := range others {
		if other == n {
			continue
		}
		if d != incoming {
			l[n.machine.Name] = append(l[n.machine.Name], other.machine.Name)
		}
		if d != outgoing {
			l[other.machine.Name] = append(l[other.machine.Name], n.machine.Name)
		}
	}
}

// cutWhile drops the packets of some links for a while.
func (w *world) cutWhile(ctx context.Context, l links, d time.Duration) outcome {
	w.cut(l)
	pause(ctx, d)
	w.restore(l)
	w.awaitQuorum(ctx)
	return done
}

// loseSome drops the packets of some links again and again, for a moment each time: so
// TCP must send many of them twice.
func (w *world) loseSome(ctx context.Context, l links, f fault) outcome {
	limited, cancel := context.WithTimeout(ctx, f.lasts)
	defer cancel()
	for pause(limited, f.slow/2) {
		w.cut(l)
		pause(limited, f.slow/2)
		w.restore(l)
	}
	w.awaitQuorum(ctx)
	return done
}

func (w *world) cut(l links) {
	for from, to := range l {
		if err := w.network.Cut(from, to...); err != nil {
			w.logf("%v", err)
		}
	}
}

func (w *world) restore(l links) {
	for from, to := range l {
		if err := w.network.Restore(from, to...); err != nil {
			w.fail(err)
		}
	}
}

// loseDisk kills a node and deletes its member's data. Then it runs the commands
// of docs/clusters.md#replace-a-node. Most of the time the other
// members are left alone meanwhile, as people do.
func (w *world) loseDisk(ctx context.Context, f fault) outcome {
	n, other := w.nodes[f.member], w.nodes[(f.member+1)%w.shape.members]
	locked := []*node{n}
	if f.how%3 > 0 {
		locked = w.nodes[:w.shape.members]
	}
	for _, l := range locked {
		l.busy.Lock()
		defer l.busy.Unlock()
	}
	if n.sidecar == nil || ctx.Err() != nil {
		return skipped
	}
	index := n.release
	if err := w.stop(n, losingPower); err != nil {
		w.logf("kill %s: %v", n.name(), err)
	}
	if err := os.RemoveAll(n.dataDir); err != nil {
		w.fail(err)
		return skipped
	}
	pause(ctx, f.lasts)
	began := time.Now()
	if err := w.replace(context.WithoutCancel(ctx), n, other, index); err != nil {
		w.fail(fmt.Errorf("replace the member of %s: %w", n.name(), err))
		return skipped
	}
	w.logf("the member of %s votes again after %s", n.name(), time.Since(began).Round(time.Millisecond))
	return done
}

// replace removes a member whose data is lost, and lets its node join again. Each
// command is repeated until it succeeds, as people do.
func (w *world) replace(ctx context.Context, n, other *node, index int) error {
	ctx, cancel := context.WithTimeout(ctx, replacing)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		listed, err := w.isListed(ctx, n, other)
		if err != nil || !listed {
			return err
		}
		_, err = w.run(ctx, "cluster", "remove", n.name(), "--data-dir="+other.dataDir)
		return err
	})
	if err != nil {
		return err
	}
	if n.join, err = w.awaitToken(ctx, other, 1); err != nil {
		return err
	}
	if err := w.start(n, index); err != nil {
		return err
	}
	return cluster.Poll(ctx, func(ctx context.Context) error { return w.isVoter(ctx, n) })
}

// isListed reports whether etcd lists a member of the node. The answer to a removal may be
// lost.
func (w *world) isListed(ctx context.Context, n, other *node) (bool, error) {
	out, err := w.run(ctx, "cluster", "members", "-o=json", "--data-dir="+other.dataDir)
	if err != nil {
		return false, err
	}
	var members []struct{ Node, Address string }
	if err := json.Unmarshal(out, &members); err != nil {
		return false, fmt.Errorf("cluster members printed %q: %w", out, err)
	}
	for _, m := range members {
		if m.Node == n.name() || strings.Contains(m.Address, n.machine.Address.String()) {
			return true, nil
		}
	}
	return false, nil
}
