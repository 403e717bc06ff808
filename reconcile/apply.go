package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// result is what became of one change.
type result struct {
	verb    verb
	live    *kube.Object // as the server has it now; nil where it failed
	failure string       // why; empty: it did not fail
}

// newerContentError says that an object bears a higher content epoch than this
// pass: its content is a stale leader's, or its epoch was chosen too low.
type newerContentError struct {
	key   applyset.Key
	epoch int64
}

func (e *newerContentError) Error() string {
	return fmt.Sprintf("%s bears content epoch %d, which is above this leader's", e.key, e.epoch)
}

// applier brings one object to its wanted form. Each turn decides from what the
// API has and sends at most a few requests, each with preconditions; whenever
// one does not hold, or its outcome is unknown, the object is read again.
type applier struct {
	api
	change
	content       protocol.Content
	recreate      bool // a field is immutable: delete first
	deleted       bool // it was deleted by this applier
	mayHaveLanded bool // a write of this object has an unknown outcome
}

// run returns an error only where the whole pass has to end.
func (a *applier) run(ctx context.Context) (result, error) {
	for attempt := 1; ; attempt++ {
		res, err := a.turn(ctx)
		if err == nil {
			return res, nil
		}
		next := a.judge(err)
		a.mayHaveLanded = a.mayHaveLanded || next == wait
		if next == immutable && !a.recreate {
			if next = a.mayRecreate(ctx, err); next == immutable {
				continue
			}
		}
		if next == fatal {
			return result{}, err
		}
		if next == refused || next == immutable || attempt == maxAttempts {
			return a.giveUp(err)
		}
		if err := a.look(ctx, next, attempt, err); err != nil {
			return a.giveUp(err)
		}
	}
}

// judge is judge for an object that this applier may have deleted: what that held
// is free only when the API server's own caches have heard of it.
func (a *applier) judge(err error) judgement {
	if a.deleted && isInItsOwnWay(err) {
		return wait
	}
	return judge(err)
}

// giveUp turns an error into the object's failure, or ends the pass if the
// apiserver is gone.
func (a *applier) giveUp(err error) (result, error) {
	err = conclude(err)
	var gone *UnreachableError
	if errors.As(err, &gone) || judge(err) == fatal {
		return result{}, err
	}
	message := a.wanted.failure(err)
	if errors.Is(err, errDeleting) {
		message = fmt.Sprintf("is being deleted, and waits for its finalizers %q", a.live.GetFinalizers())
	}
	return result{failure: message}, nil
}

// mayRecreate looks again before anything is deleted: the server also says
// "immutable" where only the uid in the request was stale.
func (a *applier) mayRecreate(ctx context.Context, cause error) judgement {
	if !a.wanted.recreates(cause) {
		return refused
	}
	before := a.live
	if err := a.reread(ctx); err != nil {
		return judge(err)
	}
	if a.live == nil || before == nil || a.live.GetUID() != before.GetUID() {
		return again
	}
	a.recreate = true
	return judge(cause)
}

// look reads the object again, after a pause if that may help.
func (a *applier) look(ctx context.Context, why judgement, attempt int, cause error) error {
	if why == wait || attempt > 2 {
		if err := pause(ctx, attempt, cause); err != nil {
			return err
		}
	}
	return a.reread(ctx)
}

func (a *applier) reread(ctx context.Context) error {
	live, err := a.get(ctx, a.resource, a.wanted.key)
	if err == nil {
		a.live = live
	}
	return err
}

// turn decides from a.live, and writes.
func (a *applier) turn(ctx context.Context) (result, error) {
	if a.live == nil {
		return a.create(ctx)
	}
	if epoch, newer := applyset.NewerEpoch(a.live.GetAnnotations(), a.content.Epoch); newer {
		return result{}, &newerContentError{key: a.wanted.key, epoch: epoch}
	}
	if a.live.GetDeletionTimestamp() != nil {
		return result{}, errDeleting
	}
	s, needed := decide(a.wanted, a.live, a.content, placed{})
	if !needed {
		return a.landed(), nil
	}
	a.stamp = s
	if a.recreate {
		if err := a.rehearse(ctx, a.resource, a.wanted.stamped(applyset.StampOf(a.content), a.resource)); err != nil {
			return result{}, err
		}
		if err := a.delete(ctx); err != nil {
			return result{}, err
		}
		return a.create(ctx)
	}
	return a.update(ctx)
}

// landed is the result where the object is as wanted already: a request whose
// answer got lost took effect, or somebody else did the same.
func (a *applier) landed() result {
	switch {
	case a.deleted:
		return result{verb: verbRecreate, live: a.live}
	case a.mayHaveLanded:
		return result{verb: verbApply, live: a.live}
	}
	return result{verb: verbNone, live: a.live}
}

// create makes the object by POST, which alone fails where it exists.
func (a *applier) create(ctx context.Context) (result, error) {
	a.stamp = applyset.StampOf(a.content)
	body := a.wanted.stamped(a.stamp, a.resource)
	err := a.write(ctx, func(ctx context.Context) (err error) {
		a.live, err = a.client.Create(ctx, a.resource, body)
		return err
	})
	if err != nil {
		a.live = nil
		return result{}, err
	}
	res := result{verb: verbCreate, live: a.live}
	if a.deleted {
		res.verb = verbRecreate
	}
	if ownership.InPlace(a.wanted.obj, a.live) {
		return res, nil
	}
	// The server normalized it. An apply now makes it known which fields are
	// ours, so that no later pass, of any leader, has to wonder.
	updated, err := a.update(ctx)
	if err == nil {
		res.live = updated.live
	}
	return res, err
}

// update applies the object, with the preconditions that it is the one that was
// read.
func (a *applier) update(ctx context.Context) (result, error) {
	body := a.wanted.stamped(a.stamp, a.resource)
	before := a.live
	if entries, needed := ownership.TakeOver(body, a.live); needed {
		err := a.write(ctx, func(ctx context.Context) error {
			live, err := a.client.SetManagedFields(ctx, a.resource, a.live, entries)
			if err == nil {
				a.live = live
			}
			return err
		})
		if err != nil {
			return result{}, err
		}
	}
	body.SetUID(a.live.GetUID())
	body.SetResourceVersion(a.live.GetResourceVersion())
	var live *kube.Object
	err := a.write(ctx, func(ctx context.Context) (err error) {
		live, err = a.client.Apply(ctx, a.resource, body)
		return err
	})
	if err != nil {
		return result{}, err
	}
	if live.GetResourceVersion() == before.GetResourceVersion() {
		return result{verb: verbNone, live: live}, nil
	}
	return result{verb: verbApply, live: live}, nil
}

// delete makes room for the object to be created again. If this leader stops
// here, the next one finds the object missing and creates it.
func (a *applier) delete(ctx context.Context) error {
	err := a.write(ctx, func(ctx context.Context) error { return a.client.Delete(ctx, a.resource, a.live) })
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.deleted, a.recreate, a.live = true, false, nil
	return nil
}

// maxMessage bounds what is kept of the API's words.
const maxMessage = 1 << 10

// describe says why an object was refused, in the API's words. It never shows a
// Secret's contents: refusals quote the values they refuse.
func describe(k applyset.Key, err error) string {
	if k.Kind == "Secret" && k.Group == "" {
		return fmt.Sprintf("refused (%s); the API's message may show the Secret's contents and is withheld", orUnknown(apierrors.ReasonForError(err)))
	}
	message := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	if apierrors.IsForbidden(err) && slices.Contains([]string{"", "rbac.authorization.k8s.io"}, k.Group) {
		message += " (an apiserver that has just started refuses some requests until it has made its own RBAC roles)"
	}
	return message + applyset.FenceHint(k.GroupKind, err)
}

func orUnknown[T ~string](s T) T {
	if s == "" {
		return "Unknown"
	}
	return s
}
