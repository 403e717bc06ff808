package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// maxAttempts bounds how often one thing is tried within a pass. The leader
// repeats the pass, with a back-off of its own.
const maxAttempts = 5

// The pauses between attempts: they double from firstPause, and the server's
// own Retry-After counts up to maxPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// endGrace is how long a write that is under way may go on when its pass has to
// end: a known outcome spares the next leader a wait (DESIGN 6.4).
const endGrace = 2 * time.Second

// quietPoll is the pause between two looks at an API in which requests of others
// may still land.
const quietPoll = 2 * time.Second

// api sends requests that do not outlive the leader's lease.
type api struct {
	client *kube.Client
	// lease is the instant after which nothing may be written. It moves as the
	// lease is kept alive, so it is asked before each request.
	lease func() time.Time
	// quiet is the instant from which on no request of others can land; zero:
	// none can.
	quiet  time.Time
	unsure *doubt
}

// doubt is when a write was last given up with an unknown outcome.
type doubt struct{ at atomic.Pointer[time.Time] }

func (d *doubt) note(at time.Time) {
	for {
		last := d.at.Load()
		if last != nil && !at.After(*last) || d.at.CompareAndSwap(last, &at) {
			return
		}
	}
}

// last returns zero where the outcome of all is known.
func (d *doubt) last() time.Time {
	if at := d.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// within runs one request within the lease.
func (a api) within(ctx context.Context, do func(context.Context) error) error {
	end := a.lease()
	if !time.Now().Before(end) {
		return ErrLeaseOver
	}
	// A request that this cuts short has an unknown outcome like any other; if
	// the lease is really over then, the next request finds out.
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	return do(ctx)
}

// write runs one request that writes. It is not cut short by the end of ctx at
// once, and notes when its outcome is not known.
func (a api) write(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endGrace, cancel) })
	defer stop()
	err := a.within(on, do)
	if outcomeUnknown(err) {
		a.unsure.note(time.Now())
	}
	return err
}

// outcomeUnknown reports whether a request that failed with err may still take
// effect.
func outcomeUnknown(err error) bool {
	var transport *kube.TransportError
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, ErrLeaseOver):
		return false
	case errors.As(err, &transport):
		return !transport.Unsent
	case errors.As(err, &status):
		return status.Status().Code >= http.StatusInternalServerError
	}
	return true
}

// awaitQuiet waits a while for requests of others to land, and reports whether
// what was read at or after looked may have to be read again.
func (a api) awaitQuiet(ctx context.Context, looked time.Time) (again bool, err error) {
	if !looked.Before(a.quiet) {
		return false, nil
	}
	return true, sleep(ctx, min(quietPoll, max(0, time.Until(a.quiet))))
}

// read repeats a request that changes nothing while its failure may pass.
func (a api) read(ctx context.Context, do func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := a.within(ctx, do)
		if err == nil || judge(err) != wait || attempt == maxAttempts {
			return conclude(err)
		}
		if err := pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

// conclude gives an error its final form once it is not tried again.
func conclude(err error) error {
	var transport *kube.TransportError
	if errors.As(err, &transport) && !errors.Is(err, context.Canceled) {
		return &UnreachableError{Err: err}
	}
	return err
}

// get reads an object; nil: it is not there.
func (a api) get(ctx context.Context, r kube.Resource, k applyset.Key) (live *kube.Object, err error) {
	err = a.read(ctx, func(ctx context.Context) error {
		obj, err := a.client.Get(ctx, r, k.Namespace, k.Name)
		if live = obj; apierrors.IsNotFound(err) {
			live = nil
			return nil
		}
		return err
	})
	return live, err
}

// pause waits before the attempt after the given one.
func pause(ctx context.Context, attempt int, err error) error {
	d := firstPause << (attempt - 1)
	d += rand.N(d / 2) // so that workers do not come back all at once
	if seconds, suggested := apierrors.SuggestsClientDelay(err); suggested {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return sleep(ctx, min(d, maxPause))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// judgement is what an error of one request means for the object.
type judgement int

const (
	refused   judgement = iota + 1 // the API does not want it: tell, and go on with the others
	fatal                          // the pass cannot go on
	again                          // the object is not what was thought: read it and decide anew
	wait                           // may pass, and may have taken effect: pause, then read and decide anew
	immutable                      // a field cannot be changed: delete and create
)

// errDeleting says that an object is there, but on its way out.
var errDeleting = errors.New("is being deleted")

// judge is total. Whatever may have taken effect is judged wait.
func judge(err error) judgement {
	var transport *kube.TransportError
	var newer *newerContentError
	switch {
	case errors.Is(err, ErrLeaseOver), errors.Is(err, context.Canceled), errors.As(err, &newer):
		return fatal
	case errors.As(err, &transport), errors.Is(err, errDeleting):
		return wait
	case errors.Is(err, context.DeadlineExceeded): // the caller's, not a request's
		return fatal
	}
	return judgeStatus(err)
}

func judgeStatus(err error) judgement {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return refused
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return wait
	case http.StatusConflict:
		if strings.Contains(status.Status().Message, "object is being deleted") {
			return wait
		}
		return again
	case http.StatusUnprocessableEntity:
		if isImmutable(status.Status().Message) {
			return immutable
		}
	}
	return refused
}

// isImmutable recognizes the API's refusals to change a field. There is no
// reason code for it, and the words differ by kind.
func isImmutable(message string) bool {
	message = strings.ToLower(message)
	for _, words := range []string{
		"immutable",                        // most kinds
		"cannot change roleref",            // RoleBinding, ClusterRoleBinding
		"updates to",                       // StorageClass, PersistentVolume, StatefulSet: "updates to x are forbidden"
		"may not be changed in an update",  // PriorityClass
		"may not change once set",          // Service
		"may not change fields other than", // Pod
		"self == oldself",                  // a CRD's rule without a message
		"can not be changed",
		"cannot be changed",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}
