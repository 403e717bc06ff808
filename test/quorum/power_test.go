package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// serviceFlag returns the flag with a directory of one service, which people see as a process.
func serviceFlag(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const text = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: api}\n" +
		"role: kubernetes_controller\nprocess: {command: [/bin/sleep, infinity]}\n"
	if err := os.WriteFile(filepath.Join(dir, "api.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--services=" + dir
}

// plan is the part of /status about the roles and the services of a node.
type plan struct {
	Roles struct {
		Local  []string
		Source string
	}
	Services []struct{ State string }
}

func (s plan) is(state string) bool { return len(s.Services) == 1 && s.Services[0].State == state }

func (s plan) controller() bool { return slices.Contains(s.Roles.Local, protocol.RoleController) }

func (n *Node) awaitPlan(t *testing.T, what string, ok func(plan) bool) {
	t.Helper()
	cluster.Await(t, n.ID+" "+what, func(ctx context.Context) error {
		_, body, err := n.Get(ctx, "/status")
		if err != nil {
			return err
		}
		var now plan
		if err := json.Unmarshal([]byte(body), &now); err != nil {
			return err
		}
		if !ok(now) {
			return fmt.Errorf("got %+v", now)
		}
		return nil
	})
}

// awaitService waits until the service of a node runs, or does not, by roles that the node
// read from the cluster or from its disk.
func (n *Node) awaitService(t *testing.T, runs bool, source string) {
	t.Helper()
	state := map[bool]string{true: "Running", false: "Stopped"}[runs]
	n.awaitPlan(t, "to have the service "+state+", with roles from "+source, func(s plan) bool { return s.is(state) && s.Roles.Source == source })
}

// changeController gives a node the controller role, or takes it.
func changeController(t *testing.T, on, n *Node, has bool) {
	t.Helper()
	on.command(t, "node", "set-roles", n.ID, map[bool]string{true: "--add", false: "--remove"}[has], protocol.RoleController, "--force")
}

// newServices returns three voters with a service each, and the flag that starts it.
func newServices(t *testing.T) (a, b, c *Node, flag string) {
	t.Helper()
	rig := New(t, "")
	a, b, c, flag = rig.Node("a"), rig.Node("b"), rig.Node("c"), serviceFlag(t)
	a.Start(flag)
	a.AwaitRunning()
	args := append(joinArgs(t, a, 2), flag)
	b.Start(args...)
	c.Start(args...)
	awaitVoters(a, b, c)
	for _, n := range []*Node{a, b, c} {
		n.awaitService(t, true, "cluster")
	}
	return a, b, c, flag
}

// TestServices_powerFails turns nodes off and on, which run a service each: one of them, and then all.
func TestServices_powerFails(t *testing.T) {
	t.Parallel()
	a, b, c, flag := newServices(t)
	nodeOff(t, a, b, flag)
	allOff(t, a, b, c, flag)
}

// The power of a node fails at each instant of a change of its role. It is as wanted after its
// next start.
func nodeOff(t *testing.T, a, b *Node, flag string) {
	t.Helper()
	for _, instant := range []struct {
		name string
		has  bool // the controller role, after the change
		come func(plan) bool
	}{
		{"the role was taken", false, func(plan) bool { return true }},
		{"the role was given", true, func(plan) bool { return true }},
		{"its sidecar knows that the role was taken", false, func(s plan) bool { return !s.controller() }},
		{"its sidecar knows that the role was given", true, func(s plan) bool { return s.controller() }},
		{"the service has stopped", false, func(s plan) bool { return s.is("Stopped") }},
		{"the service runs", true, func(s plan) bool { return s.is("Running") }},
	} {
		changeController(t, a, b, instant.has)
		b.awaitPlan(t, "to come to: "+instant.name, instant.come)
		KillAll(b)
		b.Start(flag)
		b.awaitService(t, instant.has, "cluster")
		b.AwaitRunning()
		t.Logf("off when %s: as wanted", instant.name)
	}
}

// The power of all nodes fails, also while one of them loses the controller role or gets it.
// A node that starts while etcd has no majority runs the services that it ran before, behind a
// closed gate. When all run again, each runs the services of its roles.
func allOff(t *testing.T, a, b, c *Node, flag string) {
	t.Helper()
	all := []*Node{a, b, c}
	KillAll(all...)
	a.Start(flag)
	a.awaitService(t, true, "disk")
	if err := a.Readyz(t.Context()); err == nil {
		t.Error("etcd has no majority, and the gate of a node that has just started is open")
	}
	b.Start(flag)
	c.Start(flag)
	for _, n := range all {
		n.awaitService(t, true, "cluster")
	}
	for round := range 4 {
		runs := round%2 == 1
		changeController(t, a, b, runs)
		if round < 2 { // later, the power fails in the middle of the change
			b.awaitService(t, runs, "cluster")
		}
		KillAll(all...)
		for _, n := range all {
			n.Start(flag)
		}
		a.awaitService(t, true, "cluster")
		b.awaitService(t, runs, "cluster")
		c.awaitService(t, true, "cluster")
	}
}
