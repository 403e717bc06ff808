package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// api is the Kubernetes API of a test. It works, and does what the test expects of
// it otherwise. It proves nothing about the real API: package reconcile and
// test/e2e do that.
type api struct {
	history *event.Value[[]string] // every call and the end of some, in order

	mu       sync.Mutex // mu guards what follows
	mark     protocol.Mark
	script   []*expectation
	answered time.Time
	quiet    time.Time // that the newest pass was given
}

// expectation is how the API treats the calls whose text it is part of: "survey",
// "a reconcile", "b reconcile 1.0.0@1", "keep".
type expectation struct {
	call string
	met  bool

	until      <-chan struct{} // where not nil: closed when the call may go on
	ends       <-chan error    // of keep: ends it
	ending     func()          // where not nil: called before a call that was cancelled, or a keep, returns
	err        error
	incomplete bool
	unsure     bool
}

type treatment func(*expectation)

func blocksUntil(released <-chan struct{}) treatment {
	return func(x *expectation) { x.until = released }
}

func failsWith(err error) treatment { return func(x *expectation) { x.err = err } }

// isIncomplete: the API rejects an object.
func isIncomplete(x *expectation) { x.incomplete = true }

// leavesRequest: the job leaves a request of unknown outcome behind.
func leavesRequest(x *expectation) { x.unsure = true }

func endsWith(errs <-chan error) treatment { return func(x *expectation) { x.ends = errs } }

func beforeItEnds(f func()) treatment { return func(x *expectation) { x.ending = f } }

// newAPI returns an API without objects. The test fails if a call that it expects
// is never made.
func newAPI(t *testing.T) *api {
	a := &api{mark: protocol.Mark{Kind: protocol.MarkAbsent}, history: event.New[[]string](nil)}
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, x := range a.script {
			if !x.met {
				t.Errorf("no call %q was made", x.call)
			}
		}
	})
	return a
}

// expect has calls treated in a way of their own. The newest expectation that fits
// a call counts.
func (a *api) expect(call string, treatments ...treatment) {
	x := &expectation{call: call}
	for _, treat := range treatments {
		treat(x)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = append(a.script, x)
}

// works ends all expectations: the API does what it is asked for.
func (a *api) works() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = append(a.script, &expectation{met: true})
}

func (a *api) setMark(m protocol.Mark) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mark = m
}

// setStore puts the ID of a store on the parent.
func (a *api) setStore(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mark.Store = id
}

// answer lets the API answer a request of a running job.
func (a *api) answer() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered = time.Now()
}

// lastQuiet returns the wait that the newest pass was given.
func (a *api) lastQuiet() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.quiet
}

func (a *api) note(what string) {
	event.Update(a.history, func(h []string) []string { return append(slices.Clip(h), what) })
}

// begin notes a call and returns how to treat it.
func (a *api) begin(call string) expectation {
	defer a.note(call)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range slices.Backward(a.script) {
		if strings.Contains(call, x.call) {
			x.met = true
			return *x
		}
	}
	return expectation{}
}

// jobs returns the surveys and passes that began.
func (a *api) jobs() string {
	var out []string
	for _, h := range a.history.Get() {
		if !strings.Contains(h, "keep") && !strings.HasSuffix(h, cancelled) {
			out = append(out, h)
		}
	}
	return strings.Join(out, ", ")
}

const (
	cancelled = ": cancelled"
	kept      = ": ended"
)

// count returns how much of the history has text as a part.
func (a *api) count(text string) int { return countIn(a.history.Get(), text) }

func countIn(history []string, text string) int {
	n := 0
	for _, h := range history {
		if strings.Contains(h, text) {
			n++
		}
	}
	return n
}

// awaitCalls waits until n calls, or ends of calls, have text as a part.
func (a *api) awaitCalls(t *testing.T, text string, n int) {
	t.Helper()
	await(t, a.history, fmt.Sprintf("%d times %q", n, text), func(h []string) bool { return countIn(h, text) >= n })
}

// applier is the API as one node reaches it.
type applier struct {
	*api
	node string
}

func (a applier) Answered() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answered
}

func (a applier) Survey(ctx context.Context, _ protocol.Work, _ time.Time) (protocol.Mark, error) {
	x := a.begin(a.node + " survey")
	if err := x.block(ctx); err != nil {
		return protocol.Mark{}, err
	}
	if x.err != nil {
		return protocol.Mark{}, x.err
	}
	a.answer()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mark, nil
}

func (a applier) Reconcile(ctx context.Context, w protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	a.mu.Lock()
	a.quiet = quiet
	a.mu.Unlock()
	call := fmt.Sprintf("%s reconcile %s@%d", a.node, w.Content.Release, w.Content.Epoch)
	x := a.begin(call)
	if err := x.block(ctx); err != nil {
		a.note(call + cancelled)
		return protocol.Outcome{}, err
	}
	if x.err != nil {
		return protocol.Outcome{Unsure: x.givenUp()}, x.err
	}
	if time.Until(lease()) <= 0 {
		return protocol.Outcome{}, errors.New("the lease is over")
	}
	return a.reconciled(x, w), nil
}

// reconciled is the outcome of a pass that was possible.
func (a applier) reconciled(x expectation, w protocol.Work) protocol.Outcome {
	a.answer()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.mark.Store != "" && a.mark.Store != w.Store:
		return protocol.Outcome{ForeignStore: a.mark.Store}
	case w.First && a.mark.FirstDone:
		return protocol.Outcome{Unfounded: true}
	case x.incomplete:
		return protocol.Outcome{HighestEpoch: w.Content.Epoch, Unsure: x.givenUp()}
	}
	a.mark = protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{w.Content}, HighestEpoch: w.Content.Epoch, Store: w.Store}
	return protocol.Outcome{Complete: true, Unsure: x.givenUp(), HighestEpoch: w.Content.Epoch}
}

func (a applier) Keep(ctx context.Context, w protocol.Work, _ func() time.Time) (protocol.Outcome, error) {
	call := fmt.Sprintf("%s keep %s@%d", a.node, w.Content.Release, w.Content.Epoch)
	x := a.begin(call)
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-x.ends:
	}
	if x.ending != nil {
		x.ending()
	}
	a.note(call + kept)
	return protocol.Outcome{Unsure: x.givenUp()}, err
}

// block waits as the test expects it, and returns an error if the call is
// cancelled meanwhile.
func (x expectation) block(ctx context.Context) error {
	if x.until == nil {
		return nil
	}
	select {
	case <-x.until:
		return nil
	case <-ctx.Done():
		if x.ending != nil {
			x.ending()
		}
		return ctx.Err()
	}
}

// givenUp is when a request was given up with an unknown outcome; zero: none was.
func (x expectation) givenUp() time.Time {
	if x.unsure {
		return time.Now()
	}
	return time.Time{}
}
