package apiserver

import (
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// show publishes an answer of this node's kube-apiserver; problem is why it is not ready;
// empty: it is ready.
func (f *Follower) show(problem string, now time.Time) {
	was := f.state.Get()
	is := httpapi.APIServer{Enabled: true, Ready: problem == "", Message: problem, Refused: strings.HasPrefix(problem, "401 "), Since: was.Since}
	if is.Refused {
		is.Message += certificateNote(f.cfg.Kubeconfig.Config().Get(), now) + "; renew them"
	}
	if is.Ready != was.Ready || is.Since.IsZero() {
		is.Since = now
	}
	event.SetIfNew(f.state, is)
	event.SetIfNew(f.shown, f.damper.next(is, now))
}

// turnAnswers counts the turns of this node that its presence showed, and the turns after which the
// sidecar asked its kube-apiserver. since is when the newest one was shown.
type turnAnswers struct {
	shown, answered int
	since           time.Time
}

// old reports whether the last answer of the kube-apiserver came before the end of a turn.
func (t turnAnswers) old() bool { return t.shown != t.answered }

// cordonedForTurn reports whether the cordon of a turn takes this node out of service.
func (f *Follower) cordonedForTurn() bool {
	own, found := f.cfg.Fleet.Get().Record(f.cfg.Node)
	return found && own.Problem == "" && own.Node.Cordon.Turn
}

// NoteTurn marks the answers of the kube-apiserver as old once the presence shows that this node is
// out of service: the work of the turn begins after that.
func (f *Follower) NoteTurn(verdict protocol.Verdict) {
	if f.cfg.Asks && !verdict.Ready && f.cordonedForTurn() && !f.answers.Get().old() {
		event.Update(f.answers, func(t turnAnswers) turnAnswers {
			t.shown, t.since = t.shown+1, time.Now()
			return t
		})
	}
}

// Now returns the current state of the kube-apiserver.
func (f *Follower) Now() httpapi.APIServer {
	out := f.state.Get()
	if answers := f.answers.Get(); answers.old() {
		out.Ready, out.Turn, out.TurnOver = false, answers.since, !f.cordonedForTurn()
	}
	return out
}

// Down reports whether the presence shows that this node's kube-apiserver is not ready.
func (f *Follower) Down() bool {
	api := f.shown.Get()
	return api.Enabled && (!api.Ready || f.answers.Get().old())
}

// damper decides which answers of a kube-apiserver the presence shows. The sidecar asks it every
// second, and all sidecars read each change: a flapping kube-apiserver must not keep them busy. The
// presence shows at once that it is not ready. It also shows at once that it is ready again, unless
// it failed several times lately: then only after it stayed ready for a while.
type damper struct {
	shown   httpapi.APIServer
	falls   []time.Time // when it recently became not ready
	changed time.Time   // when another problem was last shown
}

const (
	// fallsCount is how long a fall counts.
	fallsCount = 2 * time.Minute
	// maxSteady is the longest time that it must stay ready.
	maxSteady = 30 * time.Second
	// problemPause is the shortest time between two shown problems.
	problemPause = 10 * time.Second
)

// next returns the state to show after an answer.
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

// steady returns how long it must stay ready before the presence shows that.
func (d *damper) steady() time.Duration {
	if len(d.falls) < 2 {
		return 0
	}
	return min(maxSteady, time.Second<<min(len(d.falls)-1, 10))
}
