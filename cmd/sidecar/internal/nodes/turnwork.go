package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/machine"
	"github.com/lockstep-dev/lockstep/internal/shell"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
	"github.com/lockstep-dev/lockstep/report"
)

// turnWork is the work of a turn, of the node whose sidecar is at --server.
type turnWork struct {
	program program
	client  reach.Etcd
	server  *reach.Sidecar
	flags   turnFlags
	want    protocol.Turn   // without a node until take knows it; afterwards the turn of the node
	took    []protocol.Turn // by this command, which did not resume it; each that etcd did not answer may be taken, or never be
	ran     bool            // the command of the turn began
	wasOut  time.Duration   // how long the node did not serve when it asked for the turn last

	causes console.WaitCauses
	shown  report.Status // the sidecar's last report
}

func (p program) newTurnWork(client reach.Etcd, f turnFlags, command []string) (*turnWork, error) {
	server, err := f.server.Client(p.Program)
	if err != nil {
		return nil, err
	}
	w := &turnWork{program: p, client: client, server: server, flags: f, causes: console.WaitCauses{Out: p.Stderr}}
	now := time.Now().UTC()
	w.want = protocol.Turn{
		Since: now, Until: now.Add(f.duration), Message: terminal.Clean(f.message), By: p.WhoTypes(),
		Kind: protocol.TurnOfPeople, BootID: machine.BootID(),
	}
	if len(command) > 0 {
		w.want.Command, w.want.Kind = terminal.Clean(shell.Line(command)), protocol.TurnOfCommand
		if reboots(command) {
			w.want.Kind = protocol.TurnOfReboot
		}
	}
	return w, nil
}

// reboots reports whether a command reboots the machine: its success proves nothing yet.
func reboots(command []string) bool {
	args := command[1:]
	switch filepath.Base(command[0]) {
	case "reboot":
		return true
	case "systemctl":
		return slices.Contains(args, "reboot") || slices.Contains(args, "kexec") || slices.Contains(args, "soft-reboot")
	case "shutdown":
		return slices.Contains(args, "-r") || slices.Contains(args, "--reboot")
	default:
		return false
	}
}

// statusPause is the pause between two requests to a sidecar that does not answer.
const statusPause = time.Second

// node returns the node of the sidecar. After a reboot, this command may be the first to run.
func (w *turnWork) node(ctx context.Context) (protocol.NodeID, error) {
	a, err := w.server.Status(ctx)
	if err != nil {
		return "", err
	}
	w.shown = a.Report
	return protocol.NodeID(a.Report.Node.ID), nil
}

// voters are the voters that the sidecar reports now.
func (w *turnWork) voters(ctx context.Context) []protocol.Voter {
	if a, err := w.server.Status(ctx); err == nil {
		w.shown = a.Report
	}
	var out []protocol.Voter
	for _, m := range w.shown.Cluster.Members {
		if !m.Learner {
			out = append(out, protocol.Voter{Name: cmp.Or(m.Node, m.ID), Healthy: m.Healthy})
		}
	}
	return out
}

// out returns how long the node does not serve, as its sidecar sees it; 0: it serves, or that is not known.
func (w *turnWork) out() time.Duration {
	for _, n := range w.shown.Fleet.Nodes {
		if since := n.ServesSince.Time; n.ID == string(w.want.Node) && n.Alive && !n.Serves && !since.IsZero() {
			return max(0, time.Since(since))
		}
	}
	return 0
}

// votes reports whether the node's member of etcd answers, or the node runs none.
func (w *turnWork) votes(ctx context.Context) bool {
	return !slices.ContainsFunc(w.voters(ctx), func(v protocol.Voter) bool { return v.Name == string(w.want.Node) && !v.Healthy })
}

// errNoTurnInTime is the end of a wait for a turn.
var errNoTurnInTime = errors.New("no turn in time")

// othersOutError is why no work begins in a turn that was taken: another node stopped serving since.
type othersOutError struct{ why string }

func (e othersOutError) Error() string { return e.why }

// take waits for the turn, and returns when the node is out of service and drained. resumed: the node held this
// turn already. If another node stops serving meanwhile, it gives the turn back, and waits again.
func (w *turnWork) take(ctx context.Context) (resumed bool, err error) {
	limited, cancel := withLimit(ctx, w.flags.wait)
	defer cancel()
	if w.want.Node, err = w.awaitNode(limited); err == nil {
		err = w.warn(limited)
	}
	if err != nil {
		return false, w.inTime(limited, err)
	}
	for {
		resumed, err = w.takeOnce(ctx, limited)
		left, is := errors.AsType[othersOutError](err)
		if !is || len(w.took) > 0 {
			return resumed, err
		}
		w.causes.Print(fmt.Sprintf("%s; node %s has given its turn back, and nothing has run", left.why, w.want.Node))
	}
}

// takeOnce waits for the turn until limited ends.
func (w *turnWork) takeOnce(ctx, limited context.Context) (resumed bool, err error) {
	if resumed, err = w.await(limited); err != nil {
		return false, errors.Join(w.inTime(limited, err), w.giveBack(ctx))
	}
	if resumed && w.isDone() {
		return true, nil // nothing is left to do out of service, and this node's sidecar may end the turn at any moment
	}
	if err = w.awaitOut(ctx); err == nil {
		err = w.drain(ctx)
	}
	if err != nil {
		err = errors.Join(err, w.giveBack(ctx))
	}
	return resumed, err
}

// withLimit bounds a wait; 0: it has no limit.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit > 0 {
		return context.WithTimeout(ctx, limit)
	}
	return context.WithCancel(ctx)
}

// inTime is the error of a wait: if its limit is over, it names the last obstacle.
func (w *turnWork) inTime(limited context.Context, err error) error {
	until, has := limited.Deadline()
	if !has || time.Until(until) > 0 { // one request took too long, or the wait was given up
		return err
	}
	why := cmp.Or(w.causes.Last, err.Error())
	return console.ExitError{Code: console.ExitNoTurn, Err: fmt.Errorf("%w (--wait %s): %s", errNoTurnInTime, w.flags.wait, why)}
}

// awaitNode asks the sidecar which node this is until it answers.
func (w *turnWork) awaitNode(ctx context.Context) (protocol.NodeID, error) {
	for {
		id, err := w.node(ctx)
		if err == nil || ctx.Err() != nil {
			return id, err
		}
		if refused, ok := errors.AsType[*reach.AnswerError](err); ok && refused.Code < 500 {
			return "", err
		}
		w.causes.Print(err.Error())
		if !backoff.Sleep(ctx, statusPause) {
			return "", err
		}
	}
}

// await waits until this node holds the turn of this command.
func (w *turnWork) await(ctx context.Context) (resumed bool, err error) {
	for {
		verdict, err := fleet.AwaitTurn(ctx, w.client.Client, fleet.TurnWait{
			Want: w.want, Voters: func() []protocol.Voter { return w.voters(ctx) },
			Out:  func() time.Duration { w.wasOut = w.out(); return w.wasOut },
			Told: func(a nodeturns.Answer, f protocol.Fleet) { w.causes.Print(w.cause(a, f)) },
			Took: func(t protocol.Turn) { w.want, w.took = t, append(w.took, t) },
		})
		switch {
		case err != nil:
			return false, err
		case verdict.Verdict == nodeturns.Granted:
			return false, nil
		case verdict.Verdict == nodeturns.NotController:
			return false, errors.New(verdict.Message)
		}
		f, err := fleet.List(ctx, w.client.Client)
		if err != nil {
			return false, err
		}
		has, found := f.Turns.Of(w.want.Node)
		switch {
		case !found:
			continue // it just ended
		case w.continues(has):
			fmt.Fprintf(w.program.Stderr, "continues its turn of %s\n", has.Since.UTC().Format(time.RFC3339))
			w.want = has
			if !slices.ContainsFunc(w.took, has.Same) { // else it was taken when etcd did not answer
				w.took = nil
			}
			return true, nil
		case has.Kind != protocol.TurnOfServices:
			return false, fmt.Errorf("%s; %s", has, f.TurnRemedy(has))
		}
		w.causes.Print(has.String())
		if !backoff.Sleep(ctx, statusPause) {
			return false, ctx.Err()
		}
	}
}

// continues reports whether the turn of the node belongs to the same command line.
func (w *turnWork) continues(has protocol.Turn) bool {
	return has.Kind == w.want.Kind && has.Command == w.want.Command
}

// notAfterFailure returns an error if the node keeps a turn whose work failed, and this command is not its
// repair: it would count as the command of that turn while it waits.
func (w *turnWork) notAfterFailure(ctx context.Context) error {
	f, err := fleet.List(ctx, w.client.Client)
	if err != nil {
		return err
	}
	has, _ := f.Turns.Of(w.want.Node)
	if !has.Work.HasFailed() || has.Kind == protocol.TurnOfServices || w.continues(has) {
		return nil
	}
	return fmt.Errorf("%s; %s", has, f.TurnRemedy(has))
}

// cause explains why the node waits, and names the obstacle.
func (w *turnWork) cause(a nodeturns.Answer, f protocol.Fleet) string {
	if held, found := f.Turns.Of(a.For); found {
		return httpapi.Pasteable(f.TurnText(held), w.client.Flags)
	}
	return a.Message
}

// awaitOut returns when the node confirms that it is out of service.
func (w *turnWork) awaitOut(ctx context.Context) error {
	_, err := nodeAwaited{w.client, w.want.Node, defaultCordonTimeout}.until(ctx, func(r *protocol.Record) bool {
		return outOfService(r) || !r.Node.Cordon.On() // people ended the cordon
	})
	return err
}

// giveBack ends the turn that this command took, if it did: nothing was done in it. It does so also after a
// signal.
func (w *turnWork) giveBack(ctx context.Context) error {
	if len(w.took) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.RequestTimeout)
	defer cancel()
	for _, t := range w.took {
		if err := fleet.GiveTurnBack(ctx, w.client.Client, t); err != nil && !errors.Is(err, fleet.ErrNoTurn) {
			return fmt.Errorf("node %s keeps the turn, or gets it yet, and no other node gets one; give it up: sidecar turn end %s: %w", t.Node, t.Node, err)
		}
	}
	w.took = nil
	return nil
}

// drain returns when clients had enough time to leave the node, if this command still has its turn then. It may have been
// paused meanwhile, and another node have the turn.
func (w *turnWork) drain(ctx context.Context) error {
	w.leaveEndpoints(ctx)
	drained, stop := context.WithTimeout(ctx, w.flags.drain)
	defer stop()
	nodes, end := fleet.Follow(drained, w.client.Client)
	defer end()
	for {
		_, changed := nodes.Load()
		over := drained.Err() != nil // before the turn is read
		if err := w.stillHas(ctx); err != nil || over {
			return err
		}
		event.Wait(drained, changed)
	}
}

// judge decides whether the work of this command may begin.
func (w *turnWork) judge(ctx context.Context, f protocol.Fleet) nodeturns.WorkAnswer {
	facts := nodeturns.WorkFacts{Fleet: f, Mine: w.want.Same, Begun: len(w.took) == 0, Out: w.wasOut}
	if len(w.shown.Cluster.Members) > 0 { // else the sidecars run no etcd
		facts.Voters = w.voters(ctx)
	}
	return nodeturns.JudgeWork(facts, w.want.Node)
}

// stillHas returns an error unless this command may work in its turn. It waits while etcd does not answer.
func (w *turnWork) stillHas(ctx context.Context) error {
	for {
		f, err := fleet.List(ctx, w.client.Client)
		if err == nil {
			switch judged := w.judge(ctx, f); judged.Verdict {
			case nodeturns.MayWork:
				return nil
			case nodeturns.OthersOut:
				return othersOutError{judged.Message}
			case nodeturns.CordonEnded:
				again := "type this command again"
				if len(w.took) == 0 { // its node keeps the turn, and what was done in it before
					again = "give the turn up: sidecar turn end " + string(w.want.Node) + "; then " + again
				}
				return fmt.Errorf("the cordon of node %s was ended meanwhile, as sidecar uncordon does, so that it serves; nothing has run; %s", w.want.Node, again)
			default:
				return w.lost(fleet.ErrNoTurn)
			}
		}
		w.causes.Print(err.Error())
		if !backoff.Sleep(ctx, statusPause) {
			return err
		}
	}
}

// leaveEndpoints waits until the Service kubernetes no longer contains the node's address, for as long as a sidecar
// that stops does.
func (w *turnWork) leaveEndpoints(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, nodeservices.MaxAwaitAddress)
	defer cancel()
	_ = w.server.Follow(limited, reach.Follower{ // if it cannot see the address, the drain suffices
		Each: func(a reach.Answer) (bool, error) {
			k := a.Report.Endpoints
			return !k.Enabled || !slices.ContainsFunc(k.Nodes, func(n report.EndpointsNode) bool {
				return n.ID == string(w.want.Node) &&
					slices.ContainsFunc(n.Addresses, func(own string) bool { return slices.Contains(k.Addresses, own) })
			}), nil
		},
		Lost: func(error) { cancel() },
	})
}
