package app

import (
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// This file is about whether the kube-apiserver of this node is ready, as this node and the
// others show it (docs/protocol.md#serves).

// showAPIServer publishes an answer of this node's kube-apiserver; problem is why it is not
// ready.
func (a *App) showAPIServer(problem string, now time.Time) {
	was := a.apiserver.Get()
	is := httpapi.APIServer{Enabled: true, Ready: problem == "", Message: problem, Refused: strings.HasPrefix(problem, "401 "), Since: was.Since}
	if is.Refused {
		is.Message += certificateNote(a.kubeconfig.config.Get(), now) + "; renew them"
	}
	if is.Ready != was.Ready || is.Since.IsZero() {
		is.Since = now
	}
	if is != was {
		a.apiserver.Set(is)
	}
	if shown := a.damper.next(is, now); shown != a.apiserverShown.Get() {
		a.apiserverShown.Set(shown)
	}
}

// turnAnswers count turns of this node that its presence has shown, and those after which its
// kube-apiserver was asked.
type turnAnswers struct{ shown, answered int }

// old reports whether the last answer of the kube-apiserver is from before or during a turn.
func (t turnAnswers) old() bool { return t.shown != t.answered }

// cordonedForTurn reports whether the cordon of a turn takes this node out of service.
func (a *App) cordonedForTurn() bool {
	own, found := a.follower.Fleet().Get().Record(a.id.node)
	return found && own.Problem == "" && own.Node.Cordon.Turn
}

// noteTurn lets the answers of the kube-apiserver be old from when the presence shows that this
// node is out of service: the work of the turn begins after that.
func (a *App) noteTurn(verdict status.Verdict) {
	if a.cfg.APIServerReadyz && !verdict.Ready && a.cordonedForTurn() && !a.turnAnswers.Get().old() {
		event.Update(a.turnAnswers, func(t turnAnswers) turnAnswers { t.shown++; return t })
	}
}

// apiserverNow is what is known of the kube-apiserver now.
func (a *App) apiserverNow() httpapi.APIServer {
	out := a.apiserver.Get()
	if out.Ready && a.turnAnswers.Get().old() {
		out.Ready, out.Message = false, "it was asked before the work of this node's turn was done, and is asked again when that is done"
	}
	return out
}

// damper decides what the presence shows of a kube-apiserver that is asked every second: all
// sidecars read each change, and one that comes and goes must not make them busy. That it is
// not ready is shown at once. That it is ready again is shown at once too, unless it was not
// ready several times lately: then only when it has stayed ready for a while.
type damper struct {
	shown   httpapi.APIServer
	falls   []time.Time // when it became not ready, lately
	changed time.Time   // when another problem was shown last
}

const (
	// fallsCount for this long.
	fallsCount = 2 * time.Minute
	// maxSteady is the longest time for which it has to stay ready.
	maxSteady = 30 * time.Second
	// problemPause is the shortest time between two problems that are shown.
	problemPause = 10 * time.Second
)

// next returns what to show after an answer.
func (d *damper) next(is httpapi.APIServer, now time.Time) httpapi.APIServer {
	switch {
	case !is.Ready && d.shown.Ready:
		for len(d.falls) > 0 && now.Sub(d.falls[0]) > fallsCount {
			d.falls = d.falls[1:]
		}
		d.falls, d.changed = append(d.falls, now), now
		d.shown = is
	case is.Ready && !d.shown.Ready && now.Sub(is.Since) >= d.steady():
		d.shown = is
	case !is.Ready && is != d.shown && now.Sub(d.changed) >= problemPause:
		d.shown, d.changed = is, now
	}
	return d.shown
}

// steady is how long it has to stay ready before that is shown.
func (d *damper) steady() time.Duration {
	if len(d.falls) < 2 {
		return 0
	}
	return min(maxSteady, time.Second<<min(len(d.falls)-1, 10))
}

func (a *App) registerReadyz(gauge func(name, help string, value func() float64)) {
	gauge("lockstep_readyz",
		"1 while /readyz answers 200: the gate is open, and with --apiserver-readyz this node's kube-apiserver is ready. If it is 0 while lockstep_status_gate_ready is 1, check that kube-apiserver.",
		func() float64 { return boolean[httpapi.Serves(a.snapshot.Get())] })
}

// apiserverWarnings are about a kube-apiserver that keeps a node whose gate is open out of
// service.
func (a *App) apiserverWarnings() []protocol.Warning {
	api := a.apiserverShown.Get()
	if !api.Enabled || api.Ready || api.Since.IsZero() || !a.gate.Verdict().Get().Ready {
		return nil
	}
	reason, message := api.Problem()
	return []protocol.Warning{{Reason: reason, Message: message, Since: api.Since}}
}
