package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// said is what a command prints. It calls each function once, when its text is there.
type said struct {
	mu   sync.Mutex // mu guards the fields below
	text bytes.Buffer
	when map[string]func()
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	for text, do := range s.when {
		if strings.Contains(s.text.String(), text) {
			delete(s.when, text)
			do()
		}
	}
	return n, err
}

// turnWhen runs sidecar turn of cp-1 as turn does, and meanwhile the functions when their text is printed.
func (w *turnWorld) turnWhen(code int, part string, meanwhile map[string]func(), args ...string) {
	w.Helper()
	out := &said{when: meanwhile}
	p := program{Program: console.Program{Stdout: out, Stderr: out, Now: time.Now, LookupEnv: func(name string) (string, bool) {
		return map[string]string{"LOCKSTEP_ETCD_SERVERS": w.endpoint}[name], true
	}}}
	got := p.main(context.WithoutCancel(w.Context()), append([]string{"turn", "--server", w.server.URL}, args...))
	if text := out.text.String(); got != code || !strings.Contains(text, part) || len(meanwhile) > 0 {
		w.Errorf("exit %d, want %d and %q in\n%s", got, code, part, text)
	}
}

// halfway returns a command that prints half and ends when the function is called.
func halfway(t *testing.T, code string) (typed []string, goOn func()) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--", "sh", "-c", "echo half; cat " + fifo + "; exit " + code}, func() {
		if err := os.WriteFile(fifo, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

func (w *turnWorld) client() *etcd.Client {
	w.Helper()
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{w.endpoint}, Prefix: "/lockstep/"})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = client.Close() })
	return client
}

// A command may stop the etcd that records its end.
func TestTurn_etcdAway(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	for _, tc := range []struct {
		exits string
		code  int
		said  string
	}{{"0", console.ExitOK, "has succeeded; waiting for etcd"}, {"5", 5, "node cp-1 keeps the turn"}} {
		typed, goOn := halfway(t, tc.exits)
		w.turnWhen(tc.code, tc.said, map[string]func(){
			"half": func() { w.etcd.Stop(); goOn() },
			"waiting for etcd": func() {
				if err := w.etcd.Restart(); err != nil {
					t.Error(err)
				}
			},
		}, append([]string{"--drain", "1ms"}, typed...)...)
	}
	w.want(console.ExitOK, "it ended with exit code 5", "turn", "status")
}

// People end the turn of a command that runs, and services take one on that node.
func TestTurn_endedMeanwhile(t *testing.T) {
	for code, want := range map[string]int{"0": console.ExitNoService, "5": 5} {
		t.Run(code, func(t *testing.T) {
			w := newTurnWorld(t, "cp-1", "cp-2")
			client := w.client()
			typed, goOn := halfway(t, code)
			w.turnWhen(want, "has ended, and now it has another one (services)", map[string]func(){"half": func() {
				defer goOn()
				if _, err := fleet.ForceTurnEnd(t.Context(), client, "cp-1"); err != nil {
					t.Error(err)
				}
				services := protocol.Turn{Node: "cp-1", Kind: protocol.TurnOfServices, Since: time.Now().UTC()}
				// It may wait until cp-1 serves again.
				if _, err := fleet.AwaitTurn(t.Context(), client, fleet.TurnWait{
					Want: services, Voters: func() []protocol.Voter { return nil }, Told: func(nodeturns.Answer, protocol.Fleet) {},
				}); err != nil {
					t.Error(err)
				}
			}}, append([]string{"--drain", "1ms"}, typed...)...)
			f, err := fleet.List(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			has, _ := f.Turns.Of("cp-1")
			if r, _ := f.Record("cp-1"); has.Kind != protocol.TurnOfServices || has.Work != protocol.TurnWorkUnderWay || r.Node.Cordon != has.Cordon() {
				t.Errorf("got %+v, and the cordon %+v", has, r.Node.Cordon)
			}
		})
	}
}

// A command that is given up in its drain gives its turn back, unless it continues an older one.
func TestTurn_givenUpInDrain(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		w := newTurnWorld(t, "cp-1", "cp-2")
		client := w.client()
		if resumed {
			w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "command", Command: "true"}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-w.server.followed // at the begin of the drain
			cancel()
		}()
		p := program{Program: console.Program{Stdout: &said{}, Stderr: &said{}, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}}
		code := p.main(ctx, []string{"turn", "--etcd-servers", w.endpoint, "--server", w.server.URL, "--for", "1h", "--drain", "1h", "--", "true"})
		if code != console.ExitFailed {
			t.Errorf("it was not given up: exit code %d", code)
		}
		f, err := fleet.List(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if _, keeps := f.Turns.Of("cp-1"); keeps != resumed {
			t.Errorf("resumed: %v: it keeps the turn: %v", resumed, keeps)
		}
	}
}

// People end the turn of a command in its drain, as they may when it is paused. It says so, and does not run: another node
// may have the turn.
func TestTurn_endedInDrain(t *testing.T) {
	for name, end := range map[string]func(context.Context, *etcd.Client, protocol.Turn) error{
		"by force": func(ctx context.Context, client *etcd.Client, _ protocol.Turn) error {
			_, err := fleet.ForceTurnEnd(ctx, client, "cp-1")
			return err
		},
		"as done": func(ctx context.Context, client *etcd.Client, has protocol.Turn) error {
			return fleet.SetTurnWork(ctx, client, has, protocol.TurnWorkDone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTurnWorld(t, "cp-1", "cp-2")
			client := w.client()
			go func() {
				<-w.server.followed // at the begin of the drain
				f, err := fleet.List(t.Context(), client)
				if err != nil {
					t.Error(err)
				}
				has, _ := f.Turns.Of("cp-1")
				if err := end(t.Context(), client, has); err != nil {
					t.Error(err)
				}
			}()
			ran := filepath.Join(t.TempDir(), "ran")
			w.turnWhen(console.ExitFailed, "the turn of this command was ended meanwhile", nil, "--drain", "20s", "--", "touch", ran)
			if _, err := os.Stat(ran); !os.IsNotExist(err) {
				t.Errorf("the command has run without its turn: %v", err)
			}
			w.want(console.ExitOK, "no node has a turn, and none waits", "turn", "status")
		})
	}
}

// A command that gets no answer when it takes its turn gives that back.
func TestTurn_unanswered(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	received, execute := w.etcd.DelayWrite("/lockstep/turns/held/cp-1")
	go func() { <-received; execute() }()
	w.turn(console.ExitFailed, "the answer is lost", "--", "true")
	w.want(console.ExitOK, "no node has a turn, and none waits", "turn", "status")
	w.turn(console.ExitOK, "", "--", "true")
}

// Another command typed on a node whose work has failed neither waits nor counts as that work.
func TestTurn_anotherCommand(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "command", Command: "false", Work: "interrupted"}))
	w.put("turns/running/cp-1", mustMarshal(t, &lockstepv1.TurnRequest{Node: "cp-1", Message: "false"}))
	w.turn(console.ExitFailed, "give the turn up: sidecar turn end cp-1", "--wait", "1s", "--", "true")
	w.turn(console.ExitNoTurn, "sidecar turn -- false runs on this node", "--wait", "1s", "--", "false")
}

// Another node stops serving in the drain: the command does not run, and its node returns to service. When that node serves
// again, it gets another turn.
func TestTurn_othersOutInDrain(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2", "cp-3")
	client := w.client()
	go func() {
		<-w.server.followed // at the begin of the drain
		w.setBroken("cp-3", true)
	}()
	w.turnWhen(console.ExitOK, "half", map[string]func(){
		`waiting: node "cp-3" is not ready (Cordoned); node cp-1 has given its turn back, and nothing has run`: func() {
			f, err := fleet.List(t.Context(), client)
			if own, _ := f.Record("cp-1"); err != nil || len(f.Turns.Held) > 0 || own.Node.Cordon.On() {
				t.Errorf("got %+v, and the cordon %+v, %v", f.Turns.Held, own.Node.Cordon, err)
			}
			w.setBroken("cp-3", false)
		},
	}, "--drain", "2s", "--", "echo", "half")
}

// The program that runs the command is killed, and its key ends with its lease: people need no --force.
func TestTurnEnd_killed(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "command", Command: "x", Work: "under way"}))
	lease, err := w.raw.Grant(t.Context(), 2)
	if err == nil {
		_, err = w.raw.Put(t.Context(), "/lockstep/turns/running/cp-1", "", clientv3.WithLease(lease.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.want(console.ExitOK, "node cp-1 serves, and its turn has ended", "turn", "end", "cp-1")
}
