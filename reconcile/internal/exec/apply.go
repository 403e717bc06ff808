package exec

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Verb is the kind of write to an object. It is a label of metrics.
type Verb string

// The verbs.
const (
	VerbNone     Verb = "none" // the object was as wanted
	VerbCreate   Verb = "create"
	VerbApply    Verb = "apply"
	VerbRecreate Verb = "recreate"
	VerbDelete   Verb = "delete"
)

// Verbs returns the verbs that change something.
func Verbs() []Verb { return []Verb{VerbCreate, VerbApply, VerbRecreate, VerbDelete} }

// Result is the outcome of one change.
type Result struct {
	Verb    Verb
	Live    *kube.Object // as it is in the API now; nil where it failed
	Failure string       // why it failed; empty: it did not
	Forged  Forged
}

// Apply brings one object to its wanted form. It returns an error only where the whole pass
// must end.
func (a API) Apply(ctx context.Context, c plan.Change, content protocol.Content) (Result, error) {
	one := applier{API: a, Change: c, content: content}
	return one.run(ctx)
}

// applier brings one object to its wanted form. Each attempt decides from the live object, and
// sends a few requests at most, each with preconditions. Where a precondition fails or an
// outcome is unknown, the object is read again.
type applier struct {
	API
	plan.Change
	content       protocol.Content
	recreate      bool // a field is immutable: delete first
	deleted       bool // this applier deleted the object
	mayHaveLanded bool // the outcome of a write of this object is unknown
	fresh         bool // Live was read after the last attempt
	forged        Forged
}

func (a *applier) run(ctx context.Context) (Result, error) {
	var out Result
	try := func(ctx context.Context) (err error) {
		out, err = a.attempt(ctx)
		return err
	}
	if err := (Attempts{Try: try, Classify: a.classify, Reread: a.reread}).Run(ctx); err != nil {
		out, err = a.giveUp(err)
		out.Forged = a.forged
		return out, err
	}
	out.Forged = a.forged
	// The object in the API server's answer need not be as wanted: an admission may change
	// fields that the bundle sets.
	if changed := ownership.Changed(a.Wanted.Object, out.Live); len(changed) > 0 {
		out.Failure = changedByAdmission(changed)
	}
	return out, nil
}

// classify is Classify for an object that this applier may have deleted: the API server frees
// the addresses, ports and quota of the object only after its caches saw the deletion. Where a
// field is immutable it decides whether the object is recreated.
func (a *applier) classify(ctx context.Context, err error) Class {
	class := Classify(err)
	if a.deleted && conflictsWithItself(err) {
		class = Retryable
	}
	a.mayHaveLanded = a.mayHaveLanded || class == Retryable
	if class == Immutable && !a.recreate {
		return a.mayRecreate(ctx, err)
	}
	return class
}

// mayRecreate reads the object again before anything is deleted: the API server
// also answers "immutable" where only the uid in the request was stale. Conflict
// means that another attempt can succeed.
func (a *applier) mayRecreate(ctx context.Context, cause error) Class {
	if !Recreates(a.Wanted, cause) {
		return Rejected
	}
	before := a.Live
	if err := a.reread(ctx); err != nil {
		return Classify(err)
	}
	a.fresh = true
	a.recreate = a.Live != nil && before != nil && a.Live.GetUID() == before.GetUID()
	return Conflict
}

// giveUp turns an error into the object's failure. An error that concerns other
// objects too ends the pass.
func (a *applier) giveUp(err error) (Result, error) {
	err = conclude(err)
	switch {
	case EndsPass(err):
		return Result{}, err
	case errors.Is(err, ErrDeleting):
		return Result{Failure: fmt.Sprintf("is being deleted, and waits for its finalizers %q", a.Live.GetFinalizers())}, nil
	}
	return Result{Failure: Failure(a.Wanted, err)}, nil
}

func (a *applier) reread(ctx context.Context) error {
	if a.fresh {
		a.fresh = false
		return nil
	}
	return a.read(ctx)
}

func (a *applier) read(ctx context.Context) error {
	live, err := a.Get(ctx, a.Resource, a.Wanted.Key)
	if err == nil { // else it would look as if the object were missing
		a.Live = live
	}
	return err
}

// readFence reads an object of the fence of which only the metadata is known:
// administrators may add to it (docs/bundles.md#the-fence).
func (a *applier) readFence(ctx context.Context) error {
	if !a.Wanted.Fence || a.Live == nil || a.Live.Object["spec"] != nil {
		return nil
	}
	return a.read(ctx)
}

// attempt decides from Live, and writes.
func (a *applier) attempt(ctx context.Context) (Result, error) {
	if err := a.readFence(ctx); err != nil {
		return Result{}, err
	}
	if a.Live == nil {
		return a.create(ctx)
	}
	if a.Live.GetDeletionTimestamp() != nil {
		return Result{}, ErrDeleting
	}
	if err := a.removeForgedStamp(ctx); err != nil {
		return Result{}, err
	}
	stamp, needed := plan.Decide(a.Wanted, a.Live, a.content, plan.Placed{})
	if !needed {
		return a.landed(), nil
	}
	a.Stamp = stamp
	if !a.recreate {
		return a.update(ctx)
	}
	if err := a.Rehearse(ctx, a.Resource, a.Wanted.Stamped(applyset.StampOf(a.content), a.Resource)); err != nil {
		return Result{}, err
	}
	if err := a.delete(ctx); err != nil {
		return Result{}, err
	}
	return a.create(ctx)
}

// landed returns the result where the object already is as wanted: a request
// whose answer was lost took effect, or another writer did the same.
func (a *applier) landed() Result {
	switch {
	case a.deleted:
		return Result{Verb: VerbRecreate, Live: a.Live}
	case a.mayHaveLanded:
		return Result{Verb: VerbApply, Live: a.Live}
	}
	return Result{Verb: VerbNone, Live: a.Live}
}

// create creates the object by POST, the only request that fails where the object
// exists.
func (a *applier) create(ctx context.Context) (Result, error) {
	a.Stamp = applyset.StampOf(a.content)
	var err error
	if a.Live, err = a.send(ctx, a.Client.Create, a.Resource, a.Wanted.Stamped(a.Stamp, a.Resource)); err != nil {
		return Result{}, err
	}
	out := Result{Verb: VerbCreate, Live: a.Live}
	if a.deleted {
		out.Verb = VerbRecreate
	}
	if ownership.InPlace(a.Wanted.Object, a.Live) {
		return out, nil
	}
	// The server normalized the object. An apply now records which fields are ours, so that no
	// later pass of any leader must find out.
	updated, err := a.update(ctx)
	if err == nil {
		out.Live = updated.Live
	}
	return out, err
}

// update applies the object, on the precondition that it is the one that was
// read.
func (a *applier) update(ctx context.Context) (Result, error) {
	body := a.Wanted.StampedOver(a.Live, a.Stamp, a.Resource)
	before := a.Live
	if entries, needed := ownership.TakeOver(body, a.Live); needed {
		if err := a.setManagedFields(ctx, entries); err != nil {
			return Result{}, err
		}
	}
	live, err := a.apply(ctx, body)
	if entries := ownership.Carry(a.Live, body.GetAPIVersion(), err); entries != nil {
		if err = a.setManagedFields(ctx, entries); err == nil {
			live, err = a.apply(ctx, body)
		}
	}
	if err != nil {
		return Result{}, err
	}
	if live.GetResourceVersion() == before.GetResourceVersion() {
		return Result{Verb: VerbNone, Live: live}, nil
	}
	return Result{Verb: VerbApply, Live: live}, nil
}

// apply applies a body to the object that was read.
func (a *applier) apply(ctx context.Context, body *kube.Object) (*kube.Object, error) {
	body.SetUID(a.Live.GetUID())
	body.SetResourceVersion(a.Live.GetResourceVersion())
	return a.send(ctx, a.Client.Apply, a.Resource, body)
}

// setManagedFields replaces the managedFields of the object that was read.
func (a *applier) setManagedFields(ctx context.Context, entries []metav1.ManagedFieldsEntry) error {
	return a.write(ctx, func(ctx context.Context) error {
		live, err := a.Client.SetManagedFields(ctx, a.Resource, a.Live, entries)
		if err == nil {
			a.Live = live
		}
		return err
	})
}

// delete makes room for the object to be created again. If this leader stops
// here, the next one finds the object missing and creates it.
func (a *applier) delete(ctx context.Context) error {
	err := a.write(ctx, func(ctx context.Context) error { return a.Client.Delete(ctx, a.Resource, a.Live) })
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.deleted, a.recreate, a.Live = true, false, nil
	return nil
}
