package turns_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The same command on all nodes at the same time: one after another, while all others serve. It
// restarts the kube-apiserver, and returns before that is over.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	stop := w.followServing()
	var commands []*typed
	for _, n := range w.nodes {
		j := w.job(n)
		j.Restart = n.api.URL + "/restart"
		commands = append(commands, w.work(n, j))
	}
	for _, c := range commands {
		w.want(c, 0, "")
	}
	stop()
	w.wantInTurn(w.log(), 3)
	for _, n := range w.nodes {
		if err := n.sidecar.Readyz(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The command and the sidecar are killed in the middle of the turn. No other node gets one. The same
// command goes on, and does not run beside a process that is left of the first.
func TestTurns_killed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	j := w.jobUntil(first, "go")
	killed := w.work(first, j)
	child := w.awaitLog(1)[0].PID
	again := w.work(first, j) // the same command line, at the same time
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed.end()
	if err := first.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	w.want(w.work(second, w.job(second), "--wait=1s"), 7, `node "cp-1" has the turn`)
	w.start(first)
	if log := w.awaitLog(2); log[1].What != began || log[1].Node != "cp-1" {
		t.Fatalf("got %v, want the command of cp-1 twice", log)
	}
	waits := w.work(second, w.job(second))
	w.write("go", "")
	w.want(again, 0, "continues its turn")
	w.want(waits, 0, "")
	w.wantInTurn(w.log()[1:], 2)
}

// The program that runs in a turn is killed, and nothing else: status, history and explain of every node
// name it, its end and its node.
func TestTurns_commandKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.nodes[0]
	j := w.jobUntil(first, "never")
	killed := w.work(first, j)
	child := w.awaitLog(1)[0].PID
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const how = "it was killed by signal 9 (killed)"
	w.want(killed, 1, "node cp-1 keeps the turn")
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn", workWord, how)
	w.awaitPrinted([]string{"history", "--kind=turn", "--node=cp-1"}, "TurnFailed", workWord, how)
	w.awaitPrinted([]string{"explain", "--node=cp-1", "--at=" + time.Now().UTC().Format(time.RFC3339)}, "TurnFailed", workWord, how)
	w.want(w.turn(first, "end"), 0, "serves, and its turn has ended")
}

// sidecar turn and its program are killed: every node says so within seconds, and people need no --force.
func TestTurns_gone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	kill := func(lines int) {
		t.Helper()
		killed := w.work(first, w.jobUntil(first, "never"))
		child := w.awaitLog(lines)[lines-1].PID
		if err := errors.Join(killed.cmd.Process.Kill(), syscall.Kill(child, syscall.SIGKILL)); err != nil {
			t.Fatal(err)
		}
		killed.end()
	}
	kill(1)
	w.want(w.turn(second, "end", "cp-1"), 0, "serves, and its turn has ended") // at once
	kill(2)
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn", "ITS WORK HAS FAILED", "was killed at ")
	w.want(w.turn(second, "end", "cp-1"), 0, "serves, and its turn has ended")
}

// Another node dies in the drain: the command does not run, and its node returns to service.
func TestTurns_othersOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, third := w.nodes[0], w.nodes[2]
	waits := w.work(first, w.job(first), "--drain=1h")
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn")
	if err := third.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 waits for a turn", `node "cp-3" is dead`)
	cluster.Await(t, "cp-1 to serve", first.sidecar.Readyz)
	w.start(third)
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn") // another one
	if err := waits.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.want(waits, 1, `waiting: node "cp-3" is dead; node cp-1 has given its turn back, and nothing has run`)
	if log := w.log(); len(log) > 0 {
		t.Errorf("got %v, want no work", log)
	}
	w.awaitPrinted([]string{"turn", "status"}, "no node has a turn")
}

// sidecar turn is killed when its command has succeeded, and the node does not serve yet: the node's sidecar ends the turn,
// and the next node gets its own.
func TestTurns_killedWhenDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	j := w.jobUntil(first, "go")
	killed := w.work(first, j)
	w.awaitLog(1)
	first.api.setDown(1)
	waits := w.work(second, w.job(second))
	w.write("go", "")
	w.awaitPrinted([]string{"turn", "status", "-o", "json"}, `"work": "Done"`)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.end()
	first.api.setDown(-1)
	w.want(waits, 0, "")
	w.wantInTurn(w.log(), 2)
}

// People do not end the turn of a command that runs, unless by force. They end that of one that is paused in its drain, and
// another node takes one. The command says that it has lost its turn when it goes on, and does not run.
func TestTurns_paused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	paused := w.work(first, w.job(first), "--drain=1h")
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn")
	w.want(w.turn(second, "end", "cp-1"), 1, "the command runs there")
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.awaitPrinted([]string{"turn", "--server=http://" + second.cfg.Listen, "end", "cp-1"}, "serves, and its turn has ended")
	w.want(w.turn(second, "begin", "--drain=1ms"), 0, "has the turn")
	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.want(paused, 1, "was ended meanwhile")
	if log := w.log(); len(log) > 0 {
		t.Errorf("got %v, want no work of cp-1", log)
	}
	w.want(w.turn(second, "end"), 0, "serves, and its turn has ended")
}

// Two same commands on one node at the same time run one after another.
func TestTurns_twice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	j := w.job(w.nodes[0])
	j.Until = filepath.Join(w.dir, "go")
	commands := []*typed{w.work(w.nodes[0], j), w.work(w.nodes[0], j)}
	w.awaitLog(1)
	w.want(w.work(w.nodes[0], j, "--wait=1s"), 7, "sidecar turn -- ")
	if log := w.log(); len(log) != 1 {
		t.Fatalf("got %v, want one command at a time", log)
	}
	w.write("go", "")
	for _, c := range commands {
		w.want(c, 0, "")
	}
	w.wantInTurn(w.log(), 2)
}

// A node that is off in its turn keeps it, and so does one whose work fails. Others wait, and get
// theirs when it serves again.
func TestTurns_away(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	w.want(w.turn(first, "begin", "--drain=1ms"), 0, "has the turn, and is out of service")
	if err := first.sidecar.Stop(); err != nil {
		t.Fatal(err)
	}
	waits := w.work(second, w.job(second))
	w.want(w.turn(second, "end", "cp-1", "--wait=1s"), 8, "node cp-1 does not serve")
	w.start(first) // its sidecar ends the turn: people have said that the work is done
	w.want(waits, 0, "")
	w.wantInTurn(w.log(), 1)

	j := w.job(first)
	j.Fail = true
	w.want(w.work(first, j), workFailed, "node cp-1 keeps the turn")
	w.want(w.work(second, w.job(second), "--wait=1s"), 7, "its work has failed")
	w.want(w.turn(second, "end", "cp-1"), 0, "serves, and its turn has ended")
	cluster.Await(t, "cp-1 to serve", first.sidecar.Readyz)
	if err := os.Remove(filepath.Join(w.dir, "log")); err != nil {
		t.Fatal(err)
	}
	w.want(w.work(second, w.job(second)), 0, "")
	w.wantInTurn(w.log(), 1)
	if code, out := w.sidecar("turn", "status").end(); code != 0 || !strings.Contains(out, "no node has a turn") {
		t.Errorf("got %d, %s", code, out)
	}

	// Its sidecar ran services, was stopped in their turn, and runs none any more.
	left, err := proto.Marshal(&lockstepv1.Turn{Node: "cp-1", Kind: string(protocol.TurnOfServices)})
	if err == nil {
		_, err = w.raw.Put(t.Context(), keys.Turn("cp-1"), string(left))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.awaitPrinted([]string{"turn", "status"}, "no node has a turn")
}
