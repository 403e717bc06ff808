package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// turnWorld plays the sidecars of nodes: their gates follow the cordons. test/roles runs real ones.
type turnWorld struct {
	command
	raw    *clientv3.Client
	etcd   *etcdtest.Server
	server *fakeSidecar // of cp-1

	mu     sync.Mutex // mu guards broken
	broken map[protocol.NodeID]bool
}

func newTurnWorld(t *testing.T, ids ...protocol.NodeID) *turnWorld {
	t.Helper()
	server := etcdtest.New(t)
	w := &turnWorld{command: command{T: t, endpoint: server.Endpoints()[0]}, raw: server.Client(t), etcd: server, server: newFakeSidecar(), broken: map[protocol.NodeID]bool{}}
	t.Cleanup(w.server.Close)
	w.server.snapshot.Set(httpapi.Snapshot{Local: protocol.Local{ID: "cp-1"}})
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := fleet.NewFollower(client)
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	workers.Go(func() { _ = nodes.Run(ctx) }) // it ends only when ctx does
	workers.Go(func() { w.play(ctx, nodes.Fleet()) })
	t.Cleanup(func() {
		cancel()
		workers.Wait()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range ids {
		w.put("nodes/"+string(id), fleet.Encode(protocol.Node{ID: id, Version: release(1, 1, 0), Roles: protocol.Roles{Controller: true}}))
		w.report(id, true)
	}
	return w
}

func (w *turnWorld) put(key string, value []byte) {
	w.Helper()
	if _, err := w.raw.Put(context.WithoutCancel(w.Context()), "/lockstep/"+key, string(value)); err != nil {
		w.Error(err)
	}
}

func (w *turnWorld) report(id protocol.NodeID, serves bool) {
	p := &lockstepv1.Presence{Ready: serves, Reason: "Ready", Election: "ineligible"}
	if !serves {
		p.Reason = "Cordoned"
	}
	value, err := proto.Marshal(p)
	if err != nil {
		w.Error(err)
	}
	w.put("presence/"+string(id), value)
}

func (w *turnWorld) play(ctx context.Context, fleets *event.Value[protocol.Fleet]) {
	for {
		f, changed := fleets.Load()
		w.mu.Lock()
		for _, r := range f.Records {
			if want := !r.Node.Cordon.On() && !w.broken[r.ID]; r.Alive && r.Presence.Ready != want && ctx.Err() == nil {
				w.report(r.ID, want)
			}
		}
		w.mu.Unlock()
		if !event.Wait(ctx, changed) {
			return
		}
	}
}

func (w *turnWorld) setBroken(id protocol.NodeID, broken bool) {
	w.mu.Lock()
	w.broken[id] = broken
	w.mu.Unlock()
	w.report(id, !broken) // the follower sees a change
}

// turn runs sidecar turn of cp-1.
func (w *turnWorld) turn(code int, part string, args ...string) {
	w.Helper()
	w.want(code, part, append([]string{"turn", "--server", w.server.URL, "--drain", "1ms"}, args...)...)
}

func TestTurn(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	ran := filepath.Join(t.TempDir(), "ran")
	script := func(rest string) []string { return []string{"--", "sh", "-c", "echo x >>" + ran + "; " + rest} }
	times := func() int {
		b, _ := os.ReadFile(ran) // missing: it never ran
		return strings.Count(string(b), "x")
	}
	w.turn(console.ExitUsage, "write -- before the command", "true")
	w.turn(console.ExitUsage, "--for: 1ms", "--for", "1ms", "--", "true")
	w.want(console.ExitOK, "no node has a turn, and none waits", "turn", "status")
	w.turn(console.ExitOK, "", append([]string{"--message", "new flags"}, script("true")...)...)
	w.want(console.ExitOK, "no node has a turn, and none waits", "turn", "status")
	if times() != 1 {
		t.Fatalf("the command ran %d times", times())
	}

	// Work that fails keeps the turn; the same command goes on, another one does not.
	w.turn(5, "node cp-1 keeps the turn", script("exit 5")...)
	w.want(console.ExitOK, "ITS WORK HAS FAILED: it ended with exit code 5; start the same command again on that node, or give the turn up: sidecar turn end cp-1 --etcd-servers=", "turn", "status")
	w.turn(console.ExitFailed, "give the turn up: sidecar turn end cp-1", "--", "true")
	w.turn(5, "continues its turn", script("exit 5")...)
	if times() != 3 {
		t.Errorf("the command ran %d times", times())
	}
	w.want(console.ExitOK, `"work": "Failed"`, "turn", "status", "-o", "json")
	w.want(console.ExitOK, "node cp-1 serves, and its turn has ended", "turn", "end", "--server", w.server.URL)
	w.want(console.ExitOK, "node cp-1 has no turn", "turn", "end", "cp-1")
	for _, args := range [][]string{{"cp-11"}, {"cp-11", "--force"}} {
		w.want(console.ExitFailed, `node "cp-11" is not registered, and has no turn; did you mean cp-1? registered: cp-1, cp-2`, append([]string{"turn", "end"}, args...)...)
	}

	// A node that serves no more says why to the nodes that wait.
	w.put("turns/held/cp-2", mustMarshal(t, &lockstepv1.Turn{Node: "cp-2", Kind: "command", Command: "x", Message: "y", Work: "done"}))
	w.setBroken("cp-2", true)
	w.turn(console.ExitNoTurn, `x (y); its work is done, and node "cp-2" does not serve yet: Cordoned`, "--wait", "1s", "--", "true")
	w.want(console.ExitOK, "cp-2 has the turn: x (y); its work is done, and it has to serve again: Cordoned", "turn", "status")
	w.setBroken("cp-2", false)
	w.want(console.ExitOK, "has ended", "turn", "end", "cp-2")

	// Killed when the work was done: it is not done again.
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "command", Command: "false", Work: "done"}))
	w.turn(console.ExitOK, "continues its turn", "--", "false")

	// The node does not serve afterwards.
	w.setBroken("cp-1", true)
	w.turn(console.ExitOK, "has the turn", "begin")
	w.want(console.ExitNoService, "node cp-1 does not serve: Cordoned; it keeps the turn", "turn", "end", "cp-1", "--wait", "1s")
	w.want(console.ExitOK, "has ended by force", "turn", "end", "cp-1", "--force")
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	value, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// No node gets a turn while another one is dead, and the command says who it is.
func TestTurn_deadNode(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.put("nodes/cp-3", fleet.Encode(protocol.Node{ID: "cp-3", Version: release(1, 1, 0), Roles: protocol.Roles{Controller: true}}))
	w.turn(console.ExitNoTurn, `no turn in time (--wait 1s): node "cp-3" is dead`, "--wait", "1s", "--", "true")
	w.turn(console.ExitNoTurn, `waiting: node "cp-3" is dead`, "--wait", "1s", "begin")
	if _, err := w.raw.Delete(t.Context(), "/lockstep/nodes/cp-3"); err != nil {
		t.Fatal(err)
	}
	w.turn(console.ExitOK, "has the turn", "begin")
	w.turn(console.ExitOK, "has the turn", "begin", "--wait", "0", "--drain", "0") // again, without limits
	w.want(console.ExitOK, "at most 2 nodes", "turn", "set", "--turns", "2")
	w.want(console.ExitOK, `"limit": 2`, "turn", "status", "-o", "json")
}

// A node without a record does not serve: its turn ends by force only, and that is said at once.
func TestTurn_withoutRecord(t *testing.T) {
	w := newTurnWorld(t, "cp-1")
	w.put("turns/held/cp-3", mustMarshal(t, &lockstepv1.Turn{Node: "cp-3", Kind: "command", Command: "x", Work: "failed"}))
	w.want(console.ExitOK, "sidecar turn end cp-3 --force", "turn", "status")
	w.want(console.ExitNoService, "sidecar turn end cp-3 --force", "turn", "end", "cp-3", "--wait", "5s")
	w.want(console.ExitOK, "has ended by force", "turn", "end", "cp-3", "--force")
}

// A turn of a reboot is done when the machine runs with another boot ID.
func TestTurn_rebooted(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "reboot", Command: "/nowhere/reboot", BootId: "before"}))
	w.turn(console.ExitOK, "continues its turn", "--", "/nowhere/reboot")
	if done := nodeturns.Rebooted(protocol.Turn{Kind: protocol.TurnOfReboot, BootID: "now"}, "now"); done {
		t.Error("the machine has not stopped yet")
	}
}

// If all nodes are broken, the one that has not served for a minute gets its turn, to be repaired. Its sidecar
// has seen how long that is.
func TestTurn_allBroken(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.setBroken("cp-1", true)
	w.setBroken("cp-2", true)
	shown := func(since time.Duration) {
		own := &protocol.Record{ID: "cp-1", Alive: true, Node: protocol.Node{ID: "cp-1", Roles: protocol.Roles{Controller: true}}}
		w.server.snapshot.Set(httpapi.Snapshot{
			Local: protocol.Local{ID: "cp-1"}, Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{own}},
			Sightings: map[protocol.NodeID]httpapi.Sighting{"cp-1": {Alive: time.Now(), Serves: time.Now().Add(-since)}},
		})
	}
	shown(time.Second)
	w.turn(console.ExitNoTurn, `no turn in time (--wait 1s): node "cp-2" is not ready (Cordoned)`, "--wait", "1s", "begin")
	shown(2 * nodeturns.Patience)
	w.turn(console.ExitOK, "has the turn", "begin", "--wait", "20s")
}

// While etcd does not answer there are no turns, and the command says what else to do.
func TestTurn_withoutEtcd(t *testing.T) {
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	c := command{T: t, endpoint: "http://" + addr}
	c.want(console.ExitFailed, "no node gets a turn: repair etcd first, or run the command without a turn, on one node after another", "turn", "--", "true")
	c.want(console.ExitFailed, "or do the work without a turn", "turn", "begin")
}
