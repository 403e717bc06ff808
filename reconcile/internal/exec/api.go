package exec

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// endGrace is how long a write may go on after its pass was asked to end: a known
// outcome spares the next leader a wait (docs/protocol-objects.md#drain).
const endGrace = 2 * time.Second

// quietPoll is the pause between two lists while requests of other leaders may
// still land.
const quietPoll = 2 * time.Second

// API sends requests that do not outlive the leader's lease.
type API struct {
	Client *kube.Client
	// Lease returns the instant after which nothing may be written. It moves while
	// the lease is kept alive, so it is called before each request.
	Lease func() time.Time
	// Quiet is the instant from which on no request of another leader can land;
	// zero: none can.
	Quiet time.Time
	Set   applyset.Set
	// Unknown notes the writes whose outcome is not known.
	Unknown *LastUnknown
}

// ReadOnly returns an API without a lease, for callers that write nothing.
func ReadOnly(client *kube.Client, s applyset.Set, quiet time.Time) API {
	endless := func() time.Time { return time.Now().Add(time.Hour) }
	return API{Client: client, Set: s, Lease: endless, Quiet: quiet, Unknown: new(LastUnknown)}
}

// LastUnknown is when a write was last given up with an unknown outcome. The
// zero value: no outcome is unknown.
type LastUnknown struct{ at atomic.Pointer[time.Time] }

// note keeps the newest instant, in whatever order concurrent writes note theirs.
func (u *LastUnknown) note(at time.Time) {
	for {
		last := u.at.Load()
		if last != nil && !at.After(*last) || u.at.CompareAndSwap(last, &at) {
			return
		}
	}
}

// Time returns zero where all outcomes are known.
func (u *LastUnknown) Time() time.Time {
	if at := u.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// within runs one request within the lease.
func (a API) within(ctx context.Context, do func(context.Context) error) error {
	end := a.Lease()
	if !time.Now().Before(end) {
		return ErrLeaseOver
	}
	// The outcome of a request that this cuts short is unknown, as after any timeout. If the
	// lease is really over then, the next request finds out.
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	return do(ctx)
}

// write runs one request that writes. When ctx ends, the request may go on for
// endGrace. write notes when the outcome is not known.
func (a API) write(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endGrace, cancel) })
	defer stop()
	err := a.within(on, do)
	if outcomeUnknown(err) {
		a.Unknown.note(time.Now())
	}
	return err
}

// send sends a body by a request that writes.
func (a API) send(
	ctx context.Context, by func(context.Context, kube.Resource, *kube.Object) (*kube.Object, error), r kube.Resource, body *kube.Object,
) (written *kube.Object, err error) {
	err = a.write(ctx, func(ctx context.Context) (err error) {
		written, err = by(ctx, r, body)
		return err
	})
	return written, err
}

// Read runs a request that changes nothing, and repeats it while its failure may
// pass.
func (a API) Read(ctx context.Context, do func(context.Context) error) error {
	try := func(ctx context.Context) error { return a.within(ctx, do) }
	return conclude(Attempts{Try: try, Classify: onlyRetryable}.Run(ctx))
}

// Get reads an object; nil: it does not exist.
func (a API) Get(ctx context.Context, r kube.Resource, k applyset.Key) (live *kube.Object, err error) {
	err = a.Read(ctx, func(ctx context.Context) error {
		obj, err := a.Client.Get(ctx, r, k.Namespace, k.Name)
		if live = obj; apierrors.IsNotFound(err) {
			live = nil
			return nil
		}
		return err
	})
	return live, err
}

// AwaitQuiet waits a while if requests of other leaders may have landed after since. It reports
// whether that is so: then everything read since must be read again.
func (a API) AwaitQuiet(ctx context.Context, since time.Time) (again bool, err error) {
	if !since.Before(a.Quiet) {
		return false, nil
	}
	return true, Sleep(ctx, min(quietPoll, max(0, time.Until(a.Quiet))))
}
