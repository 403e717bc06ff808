package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/machine"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// minServeWait is how long a node may at least take to serve again after its work.
const minServeWait = 10 * time.Second

// run runs the command in the turn of this node, when no other command does.
func (w *turnWork) run(ctx context.Context, command []string) error {
	waiting, stop := console.UntilSignal(ctx)
	defer stop()
	limited, cancel := withLimit(waiting, w.flags.wait)
	defer cancel()
	node, err := w.awaitNode(limited)
	if err != nil {
		return w.inTime(limited, err)
	}
	w.want.Node = node
	if err := w.notAfterFailure(limited); err != nil {
		return w.inTime(limited, err)
	}
	request, worked := protocol.TurnRequest{Node: node, Since: w.want.Since, Message: w.want.What(), By: w.want.By}, false
	err = fleet.WithTurnCommand(ctx, limited, w.client.Client, request, func(other protocol.TurnRequest) {
		w.causes.Print(fmt.Sprintf("sidecar turn -- %s runs on this node, or waits for the turn, since %s%s", other.Message, other.Since.UTC().Format(time.RFC3339), table.ByWhom(other.By)))
	}, func() error {
		worked = true
		stop() // signals are passed on from here on
		return w.runAlone(ctx, command)
	})
	if !worked && errors.Is(err, context.DeadlineExceeded) {
		return w.inTime(limited, err)
	}
	return err
}

// warn says before the work if it is known that the node may not serve after it.
func (w *turnWork) warn(ctx context.Context) error {
	f, status, _, err := election.ReadSnapshot(ctx, w.client.Client)
	if err != nil {
		return err
	}
	if risk := protocol.TurnRisk(status, f, w.want.Node); risk != "" {
		fmt.Fprintf(w.program.Stderr, "warning: %s\n", risk)
	}
	return nil
}

// showRuns lets the node's sidecar see that this program runs, until stop is called: its stream ends with the program,
// also if that is killed.
func (w *turnWork) showRuns(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		f := reach.Follower{Turn: true, Each: func(reach.Answer) (bool, error) { return false, nil }, Lost: func(error) {}}
		_ = w.server.Follow(ctx, f) // without it, the key in etcd shows the end, later
	})
	return func() { cancel(); following.Wait() }
}

func (w *turnWork) runAlone(ctx context.Context, command []string) error {
	defer w.showRuns(ctx)()
	waiting, stop := console.UntilSignal(ctx)
	resumed, err := w.take(waiting)
	if err == nil && waiting.Err() != nil {
		err = errors.Join(waiting.Err(), w.giveBack(ctx))
	}
	stop()
	if err != nil {
		return err
	}
	if !resumed || !w.isDone() {
		err = w.execute(ctx, command)
		if err == nil && w.want.Kind == protocol.TurnOfReboot {
			return w.awaitReboot(ctx)
		}
	}
	if err == nil {
		err = w.finish(ctx)
	}
	if err != nil && w.ran {
		return ranError{err}
	}
	return err
}

// finish records that the work is done, and returns when the node serves and its turn is over.
func (w *turnWork) finish(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.left())
	defer cancel()
	written := !w.ran // it was done before, or by a write that etcd did not answer
	err := w.record(limited, w.want.Command+" has succeeded", func() error {
		err := fleet.SetTurnWork(limited, w.client.Client, w.want, protocol.TurnWorkDone)
		written = written || fleet.MayBeWritten(err)
		return err
	})
	switch {
	case errors.Is(err, fleet.ErrNoTurn) && written:
		return nil // this node's sidecar ended the turn
	case errors.Is(err, fleet.ErrNoTurn):
		return console.ExitError{Code: console.ExitNoService, Err: fmt.Errorf("%s has succeeded; %w", w.want.Command, w.lost(err))}
	case err != nil:
		return console.ExitError{Code: console.ExitNoService, Err: fmt.Errorf("%s has succeeded, and its end is not in etcd; node %s keeps the turn, and no other node gets one; when etcd answers: %s: %w",
			w.want.Command, w.want.Node, httpapi.Pasteable("sidecar turn end "+string(w.want.Node), w.client.Flags), err)}
	}
	return w.awaitEnd(ctx, w.left())
}

// left is how long the node may take to serve again.
func (w *turnWork) left() time.Duration { return max(time.Until(w.want.Until), minServeWait) }

// record writes how the command ended, and tries again while etcd does not answer: the command may have stopped it.
func (w *turnWork) record(ctx context.Context, ended string, write func() error) error {
	for said := false; ; said = true {
		err := write()
		if err == nil || errors.Is(err, fleet.ErrNoTurn) {
			return err
		}
		if !said && ctx.Err() == nil {
			fmt.Fprintf(w.program.Stderr, "%s; waiting for etcd, to record it: %v\n", ended, err)
		}
		if !backoff.Sleep(ctx, statusPause) {
			return err
		}
	}
}

// lost is the error of a command whose turn ended while it ran.
func (w *turnWork) lost(err error) error {
	return fmt.Errorf("the turn of this command was ended meanwhile, as sidecar turn end %s --force does: %w", w.want.Node, err)
}

// isDone reports whether the work of a turn that goes on was done before.
func (w *turnWork) isDone() bool {
	return w.want.Work == protocol.TurnWorkDone || nodeturns.Rebooted(w.want, machine.BootID())
}

// execute runs the command. If it fails, the node keeps the turn.
func (w *turnWork) execute(ctx context.Context, command []string) error {
	if w.want.Work.HasFailed() { // it is tried again
		if err := fleet.SetTurnWork(ctx, w.client.Client, w.want, protocol.TurnWorkUnderWay); err != nil {
			return err
		}
	}
	w.ran = true
	code, err := w.program.execCommand(ctx, command)
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%s: %w", w.want.Command, err)
	// After that time, this node's sidecar sees by itself that the command does not run any more.
	limited, cancel := context.WithTimeout(ctx, nodeturns.Silence)
	defer cancel()
	kept := w.record(limited, failed.Error(), func() error {
		return fleet.FailTurnWork(limited, w.client.Client, w.want, endOf(err))
	})
	if errors.Is(kept, fleet.ErrNoTurn) {
		return console.ExitError{Code: code, Err: fmt.Errorf("%w; %w", failed, w.lost(kept))}
	}
	return console.ExitError{Code: code, Err: errors.Join(fmt.Errorf("%w; node %s keeps the turn, and no other node gets one; %s",
		failed, w.want.Node, w.want.Remedy()), kept)}
}

// endOf describes how a failed command ended, for people.
func endOf(err error) string {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		if how, ok := failed.Sys().(syscall.WaitStatus); ok && how.Signaled() {
			return fmt.Sprintf("it was killed by signal %d (%s)", how.Signal(), how.Signal())
		}
		return fmt.Sprintf("it ended with exit code %d", failed.ExitCode())
	}
	return err.Error()
}

// execCommand runs a command with the files of this one, and passes signals on. It returns the exit
// code, and an error unless that is 0.
func (p program) execCommand(ctx context.Context, command []string) (code int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, terminal.Uncounted(p.Stdout), p.Stderr
	signals := make(chan os.Signal, 4) // some may arrive before the command starts
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return console.ExitFailed, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT { // a terminal sends that to both
				_ = cmd.Process.Signal(s) // it just ended
			}
		case err := <-ended:
			if err == nil {
				return console.ExitOK, nil
			}
			if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() > 0 {
				return failed.ExitCode(), err
			}
			return console.ExitFailed, err
		}
	}
}

// rebootTime is how long the command waits for the machine to stop.
const rebootTime = 10 * time.Minute

// awaitReboot waits until the machine stops. After the reboot, its sidecar ends the turn.
func (w *turnWork) awaitReboot(ctx context.Context) error {
	fmt.Fprintf(w.program.Stderr, "the machine is about to stop; the turn of node %s ends when it is back and serves\n", w.want.Node)
	stopping, stop := console.UntilSignal(ctx)
	defer stop()
	select {
	case <-stopping.Done():
		return nil
	case <-time.After(rebootTime):
		return console.ExitError{Code: console.ExitNoService, Err: fmt.Errorf("the machine has not stopped within %s; node %s keeps the turn; %s", rebootTime, w.want.Node, w.want.Remedy())}
	}
}
