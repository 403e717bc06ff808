package quorum

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// withClocks builds a sidecar whose clock can be wrong: in the whole process, and in its
// etcd member.
func withClocks(t *testing.T) (binary string) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED, NOT TESTED: needs Linux with amd64, to shift the clock of a process")
	}
	return cluster.BuildSteps(t)
}

// The clock of the joining node, or of the member that answers, is an hour ahead or
// behind. The node joins. Both are started again, and all certificates are valid at each of
// these clocks.
func TestJoin_clocks(t *testing.T) {
	t.Parallel()
	binary := withClocks(t)
	for _, clock := range []string{"1h", "-1h"} {
		for who, set := range map[string]func(member, joiner *Node){
			"the member": func(member, _ *Node) { member.Clock = clock },
			"the joiner": func(_, joiner *Node) { joiner.Clock = clock },
		} {
			t.Run(who+" is "+clock+" off", func(t *testing.T) {
				t.Parallel()
				rig := New(t, binary)
				a, b := rig.Node("a"), rig.Node("b")
				set(a, b)
				a.Start()
				a.AwaitRunning()
				args := joinArgs(t, a, 1)
				b.Start(args...)
				awaitVoters(a, b)
				KillAll(a, b)
				a.Start()
				b.Start(args...)
				awaitVoters(a, b)
				for _, n := range []*Node{a, b} {
					n.wantClock(t)
					n.wantValid(t)
				}
				wantMembersOf(t, a, "a", "b")
			})
		}
	}
}

// wantClock requires that the sidecar uses the clock that the test gave it.
func (n *Node) wantClock(t *testing.T) {
	t.Helper()
	now, err := n.ClusterStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shift, _ := time.ParseDuration(n.Clock) // none: zero
	if off := time.Since(now.Since.Add(-shift)); off.Abs() > 10*time.Minute {
		t.Errorf("%s has been running since %s by its own clock, which should be %q off", n.ID, now.Since, n.Clock)
	}
}

// wantValid requires that the node's certificate is valid an hour ago and in an hour.
func (n *Node) wantValid(t *testing.T) {
	t.Helper()
	dir := datadir.Layout(n.Dir).PKI()
	ca, err := pki.LoadCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ReadCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Now().Add(-time.Hour), time.Now(), time.Now().Add(time.Hour)} {
		if err := pki.Verify(cert, ca.Certificate(), n.Address, at); err != nil {
			t.Errorf("the certificate of %s at %s: %v", n.ID, at, err)
		}
	}
}

// A token for an hour is created on one member, and a node joins at another one, whose clock
// is an hour ahead: there it has expired. The node is refused, and reports until when the
// token was valid and the times of both clocks. At the first member it joins.
func TestJoin_clocksOfTwoMembers(t *testing.T) {
	t.Parallel()
	rig := New(t, withClocks(t))
	a, b, c := rig.Node("a"), rig.Node("b"), rig.Node("c")
	b.Clock = "1h"
	a.Start()
	a.AwaitRunning()
	b.Start(joinArgs(t, a, 1)...)
	awaitVoters(a, b)
	args := joinArgs(t, a, 1)
	last := c.Refused(joinAt(args, b)...)
	now := time.Now().UTC()
	wantText(t, last, "the token has expired: it was valid until ", "sidecar cluster token create")
	for which, shows := range map[string]time.Time{"the clock of that member shows ": now.Add(time.Hour), "this node's clock shows ": now} {
		_, text, _ := strings.Cut(last, which)
		text, _, _ = strings.Cut(text, "Z")
		if at, err := time.Parse(time.RFC3339, text+"Z"); err != nil || at.Sub(shows).Abs() > 10*time.Minute {
			t.Errorf("%s%q, want about %s, in %s", which, text, shows, last)
		}
	}
	wantUnused(t, a, args[1])
	c.Start(args...)
	awaitVoters(a, b, c)
	wantMembersOf(t, a, "a", "b", "c")
}

// The clock of a voter is an hour ahead, and another voter's is an hour behind. Elections,
// the records of the nodes and their leases do not notice.
func TestMember_clocks(t *testing.T) {
	t.Parallel()
	rig := New(t, withClocks(t))
	a, b, c := rig.Node("a"), rig.Node("b"), rig.Node("c")
	b.Clock, c.Clock = "1h", "-1h"
	a.Start()
	a.AwaitRunning()
	args := joinArgs(t, a, 2)
	b.Start(args...)
	c.Start(args...)
	all := []*Node{a, b, c}
	awaitVoters(all...)
	writes := startLoad(t, all...)
	for _, killed := range all {
		writes.awaitMore(t, 20)
		KillAll(killed)
		writes.awaitMore(t, 20)
		killed.Start(args...)
		awaitVoters(all...)
	}
	writes.end()
	for _, n := range all {
		n.wantClock(t)
		writes.wantAll(t, n, a)
		cluster.Await(t, n.ID+" to show all nodes alive", func(ctx context.Context) error {
			s, err := n.Status(ctx)
			if err != nil {
				return err
			}
			for _, other := range s.Fleet.Nodes {
				if !other.Alive {
					return fmt.Errorf("%s is not", other.ID)
				}
			}
			if len(s.Fleet.Nodes) != len(all) {
				return fmt.Errorf("got %+v", s.Fleet.Nodes)
			}
			return nil
		})
	}
}
