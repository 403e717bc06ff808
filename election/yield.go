package election

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

// yield is an election's memory of an unreachable API from one leadership to the
// next (docs/protocol.md#yielding).
type yield struct {
	withdrawn bool
	problem   protocol.Eligibility // why, by the newest request that failed
	pauses    backoff.Backoff      // before it campaigns again; grows with each withdrawal
}

const (
	minYieldPause = time.Second
	maxYieldPause = time.Minute
	// apiPollPause is the pause between two attempts to reach the API while
	// withdrawn.
	apiPollPause  = time.Second
	surveyTimeout = 10 * time.Second
	// While withdrawn, the sidecar logs the problem when it changes, and again
	// after these pauses.
	minProblemPause = 10 * time.Second
	maxProblemPause = 10 * time.Minute
)

// withdraw is called when a leader resigns because its API is unreachable.
func (y *yield) withdraw(problem protocol.Eligibility) {
	y.withdrawn, y.problem = true, problem
	y.pauses.Next()
}

// passCompleted is called after a complete pass.
func (y *yield) passCompleted() { y.pauses.Reset() }

// apiProblem returns why the API cannot be used. err is the error of the newest
// survey; nil: there is none.
func (e *Election) apiProblem(err error) protocol.Eligibility {
	var out protocol.Eligibility
	if e.cfg.APIProblem != nil {
		out = e.cfg.APIProblem()
	}
	if out.Message == "" && err != nil {
		out.Message = err.Error()
	}
	return protocol.Eligibility{
		Reason:  cmp.Or(out.Reason, protocol.APIUnreachable),
		Message: cmp.Or(out.Message, "this node's kube-apiserver is unreachable"),
	}
}

// awaitAPI returns when the API answered and the pause is over.
func (e *Election) awaitAPI(ctx context.Context) error {
	logged := problemLog{e: e, pauses: backoff.Backoff{First: minProblemPause, Max: maxProblemPause}}
	for {
		limited, cancel := context.WithTimeout(ctx, surveyTimeout)
		_, err := e.cfg.Applier.Survey(limited, protocol.Work{}, time.Time{})
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.yield.problem = e.apiProblem(err)
		logged.note(e.yield.problem)
		e.setState(func(s State) State { s.Eligibility = e.yield.problem; return s })
		if !backoff.Sleep(ctx, apiPollPause) {
			return ctx.Err()
		}
	}
	pause := e.yield.pauses.Pause()
	e.yield.problem.Message = fmt.Sprintf("its kube-apiserver can be used again; the node campaigns again in %s; it withdrew because %s",
		pause, e.yield.problem.Message)
	e.setState(func(s State) State { s.Eligibility = e.yield.problem; return s })
	if !backoff.Sleep(ctx, pause) {
		return ctx.Err()
	}
	e.yield.withdrawn = false
	return nil
}

// problemLog logs why a node stays withdrawn, without a line for each attempt.
type problemLog struct {
	e      *Election
	last   protocol.Eligibility
	due    time.Time // of the next line
	pauses backoff.Backoff
}

func (p *problemLog) note(problem protocol.Eligibility) {
	switch {
	case problem != p.last:
		p.pauses.Reset()
	case time.Now().Before(p.due):
		return
	}
	p.last, p.due = problem, time.Now().Add(p.pauses.Next())
	p.e.cfg.Log.Warn("withdrawn: the kube-apiserver of this node cannot be used", "reason", string(problem.Reason), "message", problem.Message)
}
