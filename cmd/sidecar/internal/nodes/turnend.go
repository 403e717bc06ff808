package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// endHeld says that the work in the turn of the node is done, and returns when that turn is over.
func (w *turnWork) endHeld(ctx context.Context, limit time.Duration) error {
	f, err := fleet.List(ctx, w.client.Client)
	if err != nil {
		return err
	}
	has, found := f.Turns.Of(w.want.Node)
	if !found {
		return fleet.ErrNoTurn
	}
	if _, registered := f.Record(has.Node); !registered {
		return console.ExitError{Code: console.ExitNoService, Err: fmt.Errorf("%s; %s", has, f.TurnRemedy(has))}
	}
	w.want = has
	err = fleet.DeclareTurnDone(ctx, w.client.Client, has)
	works, is := errors.AsType[fleet.WorksError](err)
	if is && has.OfCommand() { // it may have been killed a moment ago
		var gone bool
		if gone, err = fleet.AwaitCommandGone(ctx, w.client.Client, has.Node); gone {
			err = fleet.DeclareTurnDone(ctx, w.client.Client, has)
			works, is = errors.AsType[fleet.WorksError](err)
		}
	}
	switch {
	case is && ctx.Err() == nil:
		return fmt.Errorf("%w; %s", works, works.Turn.WorksRemedy())
	case err != nil:
		return err
	}
	return w.awaitEnd(ctx, limit)
}

// withoutTurn is nil if a node without a turn is registered, and otherwise an error that names the registered ones.
func (w *turnWork) withoutTurn(ctx context.Context) error {
	f, err := fleet.List(ctx, w.client.Client)
	if err != nil {
		return err
	}
	if _, registered := f.Record(w.want.Node); registered {
		return nil
	}
	var ids []string
	for _, r := range f.Records {
		ids = append(ids, string(r.ID))
	}
	near, _ := console.Nearest(string(w.want.Node), ids)
	return fmt.Errorf("node %q is not registered, and has no turn%s%s", w.want.Node, terminal.Prefixed("; did you mean ", near), terminal.Prefixed("? registered: ", protocol.RecordNames(f.Records)))
}

// awaitEnd returns when the node serves and its turn, whose work is done, is over. A limit of 0 is none. Meanwhile it
// says why the node does not serve.
func (w *turnWork) awaitEnd(ctx context.Context, limit time.Duration) error {
	limited, cancel := withLimit(ctx, limit)
	defer cancel()
	nodes, end := fleet.Follow(limited, w.client.Client)
	defer end()
	for began := time.Now(); ; {
		now, changed := nodes.Load()
		action, err := fleet.AdvanceTurn(limited, w.client.Client, w.want, w.votes(limited))
		switch {
		case err == nil && action == nodeturns.End:
			return nil
		case err == nil && action == nodeturns.ReturnToService:
			continue
		case errors.Is(err, fleet.ErrNoTurn):
			return nil // people ended it, or this node's sidecar
		}
		pause, stop := context.WithTimeout(limited, turnCheck)
		event.Wait(pause, changed)
		stop()
		switch why := w.whyOut(now); {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			return console.ExitError{Code: console.ExitNoService, Err: fmt.Errorf("the work is done, and node %s does not serve: %s; it keeps the turn until it serves, and no other node gets one; if it never will: sidecar turn end %[1]s --force", w.want.Node, why)}
		case time.Since(began) >= turnCheck: // most nodes serve before that
			w.causes.Print(fmt.Sprintf("the work is done, and node %s does not serve yet: %s", w.want.Node, why))
		}
	}
}

// whyOut says why the node does not serve after its work: in the words of its own sidecar, if that is the one at --server.
func (w *turnWork) whyOut(f protocol.Fleet) string {
	done := w.want
	done.Work = protocol.TurnWorkDone
	why, is := f.TurnWait(done), w.shown.Ready
	switch {
	case why == "":
		return "its member of etcd does not answer"
	case w.shown.Node.ID == string(w.want.Node) && is.ServesReason == why && is.ServesMessage != "":
		return why + ": " + is.ServesMessage
	}
	return why
}

// turnCheck is how often a turn that does not end is checked without a change.
const turnCheck = 5 * time.Second
