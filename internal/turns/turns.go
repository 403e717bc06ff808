// Package turns takes and ends the turns of this node (docs/protocol-nodes.md#turns): for an agent that
// reboots the machine, and for changed services. Package fleet writes them into etcd,
// and package protocol decides who gets one. Only KeepCommands blocks until its context ends; no
// goroutine outlives a call.
package turns

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// Config configures a Node. All fields are required.
type Config struct {
	Client *etcd.Client
	Node   protocol.NodeID
	BootID string // of this machine
	Fleet  *event.Value[protocol.Fleet]
	// Voters returns the voters of the etcd that the sidecars run. The channel is closed when they
	// change.
	Voters func() ([]protocol.Voter, <-chan struct{})
	// Published reports whether this node's address may still leave the Service kubernetes. The
	// channel is closed with each possible change of the answer.
	Published func() (published bool, changed <-chan struct{})
	Log       *slog.Logger
}

// Node takes and ends the turns of this node.
type Node struct {
	cfg     Config
	follows *event.Value[int] // how many commands follow the status of this sidecar
}

// New returns a Node that takes no turn by itself.
func New(cfg Config) *Node { return &Node{cfg: cfg, follows: event.New(0)} }

// CommandFollows records that sidecar turn follows the status of this sidecar while it runs. It returns a function that
// records the end, which the kernel reports when the program is killed.
func (n *Node) CommandFollows() (ended func()) {
	count := func(more int) { event.Update(n.follows, func(now int) int { return now + more }) }
	count(1)
	return func() { count(-1) }
}

// retry is the pause before a turn that does not end is checked again without a change.
const retry = 5 * time.Second

// KeepCommands ends the turn of this node, once its work is done and the node serves, until ctx ends: the command that took
// it may be killed, or end with the machine, and an agent that rebooted that only reports it. It also
// marks the turn of a command that ended without a word.
func (n *Node) KeepCommands(ctx context.Context) error {
	var seen sight
	for {
		now, fleetChanged := n.cfg.Fleet.Load()
		follows, followsChanged := n.follows.Load()
		_, votersChanged := n.cfg.Voters()
		var again time.Duration
		t, found := now.Turns.Of(n.cfg.Node)
		facts := seen.observe(t, slices.Contains(now.Turns.Running, n.cfg.Node), follows > 0)
		facts.BootID = n.cfg.BootID
		switch {
		case !found:
		case nodeturns.Finishes(t, n.cfg.BootID):
			n.report(ctx, n.advance(ctx, t), string(t.Kind))
			again = retry
		case n.judgeCommand(ctx, facts, seen.last):
			again = retry
		}
		if !event.WaitFor(ctx, again, fleetChanged, votersChanged, followsChanged) {
			return ctx.Err()
		}
	}
}

// sight is what the sidecar saw of the command of this node's turn.
type sight struct {
	turn    protocol.Turn
	since   time.Time // since when its key is missing; zero: it runs, or there is none
	follows bool      // it followed the status in this turn
	last    nodeturns.LastSign
}

// observe returns the facts about the command of a turn.
//
//revive:disable-next-line:flag-parameter they are facts
func (s *sight) observe(t protocol.Turn, runs, follows bool) nodeturns.CommandFacts {
	if !t.Same(s.turn) {
		*s = sight{turn: t}
	}
	s.follows, s.last.Seen = s.follows || follows, s.last.Seen || runs
	switch {
	case follows:
		s.last.Left = time.Time{}
	case s.last.Left.IsZero():
		s.last.Left = time.Now()
	}
	out := nodeturns.CommandFacts{Turn: t, Runs: runs, Left: s.follows && !follows}
	switch {
	case !t.OfCommand() || runs:
		s.since = time.Time{}
		return out
	case s.since.IsZero():
		s.since = time.Now()
	}
	out.Silent = time.Since(s.since)
	return out
}

// judgeCommand marks the turn of a command that ended without a word, or that runs again. It reports
// whether the turn has to be checked again without a change.
func (n *Node) judgeCommand(ctx context.Context, facts nodeturns.CommandFacts, last nodeturns.LastSign) (again bool) {
	t := facts.Turn
	work := nodeturns.JudgeCommand(facts)
	if work == t.Work {
		return work == protocol.TurnWorkUnderWay && facts.Silent > 0
	}
	t.Work, t.Problem = work, ""
	if work == protocol.TurnWorkInterrupted {
		t.Problem = nodeturns.Interrupted(facts, last, time.Now())
	}
	err := fleet.SetCommandWork(ctx, n.cfg.Client, t)
	if err == nil && work == protocol.TurnWorkInterrupted {
		n.cfg.Log.Error("the command of this node's turn has ended without a word: this node keeps its turn, and no other node gets one", "command", t.Command, "problem", t.Problem)
	}
	n.report(ctx, err, "command")
	return true
}

// StepOfServices carries out an action for the turn t of services. It can be called again.
func (n *Node) StepOfServices(ctx context.Context, action nodeservices.TurnAction, t protocol.Turn) {
	var err error
	switch action {
	case nodeservices.GiveBackTurn:
		n.cfg.Log.Info("the turn of the services is given back: people have ended its cordon, or another node has stopped serving")
		err = fleet.GiveTurnBack(ctx, n.cfg.Client, t)
	case nodeservices.FailTurn:
		n.cfg.Log.Error("services do not become ready after their change: this node keeps its turn, and no other node gets one", "services", t.Message)
		err = fleet.SetTurnWork(ctx, n.cfg.Client, t, protocol.TurnWorkFailed)
	case nodeservices.ContinueTurn:
		n.cfg.Log.Info("services are started again in the turn of this node", "services", t.Message)
		err = fleet.SetTurnWork(ctx, n.cfg.Client, t, protocol.TurnWorkUnderWay)
	case nodeservices.FinishTurn:
		err = n.advance(ctx, t)
	default: // wait for a change
	}
	n.report(ctx, err, "services")
}

// report logs a failure, unless the turn ended meanwhile.
func (n *Node) report(ctx context.Context, err error, kind string) {
	if err != nil && !errors.Is(err, fleet.ErrNoTurn) && !errors.Is(err, etcd.ErrChanged) && ctx.Err() == nil {
		n.cfg.Log.Warn("the turn of this node is not changed yet, trying again", "kind", kind, "err", err)
	}
}

// advance takes the next step for a turn whose work is done.
func (n *Node) advance(ctx context.Context, t protocol.Turn) error {
	if t.Work != protocol.TurnWorkDone {
		n.cfg.Log.Info("the work of this node's turn is done, which ends when this node serves", "kind", t.Kind)
		if err := fleet.SetTurnWork(ctx, n.cfg.Client, t, protocol.TurnWorkDone); err != nil {
			return err
		}
	}
	action, err := fleet.AdvanceTurn(ctx, n.cfg.Client, t, n.votes())
	if err == nil && action == nodeturns.End {
		n.cfg.Log.Info("the turn of this node has ended")
	}
	return err
}

// votes reports whether this node's voting member is healthy, or there is none.
func (n *Node) votes() bool {
	voters, _ := n.cfg.Voters()
	return !slices.ContainsFunc(voters, func(v protocol.Voter) bool { return v.Name == string(n.cfg.Node) && !v.Healthy })
}

// Out reports whether clients no longer use this node: its presence shows a closed gate, it does not
// lead, and its address left the Service kubernetes. The channel is closed with each possible change
// of the last one.
func (n *Node) Out(f protocol.Fleet) (bool, <-chan struct{}) {
	published, changed := n.cfg.Published()
	own, found := f.Record(n.cfg.Node)
	return found && !own.Presence.Ready && own.Presence.Election != protocol.Leading && !published, changed
}

// Alone reports whether no other controller is registered.
func (n *Node) Alone(f protocol.Fleet) bool {
	for _, r := range f.Records {
		if r.ID != n.cfg.Node && r.Counts() {
			return false
		}
	}
	return f.Revision > 0
}

// want returns a turn of this node that begins now.
func (n *Node) want(kind protocol.TurnKind, by, message string) protocol.Turn {
	now := time.Now().UTC()
	return protocol.Turn{
		Node: n.cfg.Node, Since: now, Until: now.Add(protocol.TurnTime), Message: message, By: by, Kind: kind, BootID: n.cfg.BootID,
	}
}

// TakeForServices waits for a turn while services need it, and takes it. pending names them, and out
// returns how long this node did not serve.
func (n *Node) TakeForServices(ctx context.Context, pending string, out func() time.Duration) {
	last := ""
	_, err := fleet.AwaitTurn(ctx, n.cfg.Client, fleet.TurnWait{
		Want: n.want(protocol.TurnOfServices, "the sidecar", pending),
		// Etcd keeps running while services restart, so its members do not matter.
		Voters: func() []protocol.Voter { return nil }, Followed: n.cfg.Fleet, Out: out,
		Told: func(answer nodeturns.Answer, _ protocol.Fleet) {
			if last != answer.Message {
				n.cfg.Log.Info("services that have changed wait for a turn of this node", "services", pending, "reason", answer.Message)
				last = answer.Message
			}
		},
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.Log.Warn("no turn for the services that have changed, trying again", "err", err)
	}
}
