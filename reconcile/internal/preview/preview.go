// Package preview simulates a pass over a bundle, by dry runs of the API server. It writes
// nothing, and it needs neither leadership nor a lease. It shows no contents of Secrets.
//
// Goroutines run only inside of Run, which waits for them.
package preview

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
	"github.com/lockstep-dev/lockstep/report"
)

// Input is the input of Run.
type Input struct {
	// Gatherer reads the live objects. Its client must make dry runs only: see DryRun.
	Gatherer       exec.Gatherer
	Bundle         *bundle.Bundle
	Wanted         []plan.Wanted // of Bundle
	AllowMassPrune bool
}

// Run simulates a pass over the bundle.
func Run(ctx context.Context, in Input) (report.Preview, error) {
	parent, err := in.Gatherer.ReadParent(ctx)
	if err != nil {
		return report.Preview{}, err
	}
	in.Gatherer.Members = plan.MembersOf(in.Wanted, parent.Inventory)
	v, err := in.Gatherer.Gather(ctx, plan.KindsOf(in.Wanted), parent.Contents.Kinds, kube.Full)
	if err != nil {
		return report.Preview{}, err
	}
	p := previewer{API: in.Gatherer.API, Input: in, observed: v, inventory: parent.Inventory}
	p.content = protocol.Content{
		Release: in.Bundle.Version.Release, Constraints: in.Bundle.Constraints, Digest: in.Bundle.Digest, Bundle: in.Bundle.Name,
		// Above every epoch that exists, or the epoch policy would refuse the dry runs.
		Epoch: 1 + max(v.HighestEpoch(in.Wanted), parent.Mark.HighestEpoch()),
	}
	out := report.Preview{Bundle: in.Bundle.Name, PruneImmediately: in.Bundle.PruneImmediately}
	if parent.Bundle != in.Bundle.Name {
		out.Replaces = parent.Bundle
	}
	if out.Objects, err = p.objects(ctx); err != nil {
		return report.Preview{}, err
	}
	p.prune(&out)
	return out, nil
}

// previewer makes one preview.
type previewer struct {
	exec.API
	Input
	observed  plan.Observation
	inventory applyset.Inventory
	content   protocol.Content
}

// objects previews each object of the bundle, in the order of writing.
func (p previewer) objects(ctx context.Context) ([]report.Previewed, error) {
	todo := plan.Make(plan.Input{Set: p.Gatherer.Set, Content: p.content, Wanted: p.Wanted, Observed: p.observed})
	changes := map[applyset.Key]plan.Change{}
	for _, wave := range todo.Changes {
		for _, c := range wave {
			changes[c.Wanted.Key] = c
		}
	}
	sorted := slices.Clone(p.Wanted)
	sorting.By(sorted, func(a, b plan.Wanted) int { return int(a.Wave - b.Wave) })
	pending := p.observed.Pending(p.Wanted, nil)
	out := make([]report.Previewed, len(sorted))
	refused := make([]*plan.Change, len(sorted)) // by a schema
	err := exec.Each(ctx, p.Gatherer.Concurrency, len(sorted), func(ctx context.Context, i int) (err error) {
		w := sorted[i]
		if c, differs := changes[w.Key]; differs {
			out[i], refused[i], err = p.object(ctx, c)
		} else {
			out[i] = p.unwritten(w, todo.Problems[w.Key], pending)
		}
		return err
	})
	redefined := redefinedKinds(sorted, out)
	for i, c := range refused {
		if c != nil && redefined[c.Wanted.Key.GroupKind] {
			out[i] = p.uncheckedChange(ctx, *c)
		}
	}
	return out, err
}

// redefinedKinds returns the kinds whose CRDs change. out is the preview of each wanted object.
func redefinedKinds(wanted []plan.Wanted, out []report.Previewed) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for i, w := range wanted {
		if !reflect.DeepEqual(out[i].Live["spec"], out[i].Wanted["spec"]) {
			kinds[bundle.Defines(w.Object)] = true
		}
	}
	return kinds
}

// unwritten previews an object that cannot be written now, or need not be.
func (p previewer) unwritten(w plan.Wanted, problem string, pending []schema.GroupVersionKind) report.Previewed {
	switch {
	case problem == "":
		return previewed(w, report.ActionNone, "")
	case slices.Contains(pending, w.GVK):
		return p.unchecked(w, "its kind comes with the bundle, so that the server could not check it yet")
	}
	return previewed(w, report.ActionFail, problem)
}

// object previews one object that differs, or may differ. It returns the change, too, if a
// schema refused it.
func (p previewer) object(ctx context.Context, c plan.Change) (out report.Previewed, refused *plan.Change, err error) {
	err = exec.Attempts{
		Try: func(ctx context.Context) (err error) {
			out, err = p.dryRun(ctx, c)
			return err
		},
		Classify: func(_ context.Context, err error) exec.Class {
			if exec.Classify(err) == exec.Conflict {
				return exec.Conflict
			}
			return exec.Rejected // each request was repeated already
		},
		Reread: func(ctx context.Context) error {
			live, err := p.Get(ctx, c.Resource, c.Wanted.Key)
			if err == nil {
				c.Live = live // nil: it is missing, so a failed read must not set it
			}
			return err
		},
	}.Run(ctx)
	switch {
	case err == nil:
		return out, nil, nil
	case exec.EndsPass(err):
		return out, nil, fmt.Errorf("%s: %w", c.Wanted.Key, err)
	case exec.BySchema(err):
		refused = &c
	}
	return previewed(c.Wanted, report.ActionFail, exec.Failure(c.Wanted, err)), refused, nil
}

// dryRun asks the API server once for the result of a change.
func (p previewer) dryRun(ctx context.Context, c plan.Change) (report.Previewed, error) {
	w := c.Wanted
	if c.Live == nil {
		return p.create(ctx, c)
	}
	if c.Live.GetDeletionTimestamp() != nil {
		return report.Previewed{}, exec.ErrDeleting
	}
	stamp, needed := plan.Decide(w, c.Live, p.content, plan.Placed{})
	if !needed {
		return previewed(w, report.ActionNone, ""), nil
	}
	c.Stamp = stamp
	after, err := p.update(ctx, c)
	if err != nil && exec.Classify(err) == exec.Immutable && exec.Recreates(w, err) {
		return p.recreate(ctx, c, err)
	}
	if err != nil {
		return report.Previewed{}, err
	}
	out := withForms(previewed(w, report.ActionChange, ""), c.Resource, c.Live, after)
	if reflect.DeepEqual(out.Live, out.Wanted) {
		return previewed(w, report.ActionNone, ""), nil // the server normalized it, or only the stamp is new
	}
	return out, nil
}

func (p previewer) create(ctx context.Context, c plan.Change) (report.Previewed, error) {
	w := c.Wanted
	created, err := p.send(ctx, p.Client.Create, c.Resource, w.Stamped(applyset.StampOf(p.content), c.Resource))
	switch {
	case apierrors.IsNotFound(err) && p.hasNamespace(w.Key.Namespace):
		return p.unchecked(w, "its namespace comes with the bundle, so that the server could not check it yet"), nil
	case err != nil:
		return report.Previewed{}, err
	}
	return withForms(previewed(w, report.ActionCreate, ""), c.Resource, nil, created), nil
}

// hasNamespace reports whether the bundle contains the namespace.
func (p previewer) hasNamespace(namespace string) bool {
	return slices.ContainsFunc(p.Wanted, func(w plan.Wanted) bool {
		return w.Key.Kind == "Namespace" && w.Key.Group == "" && w.Key.Name == namespace
	})
}

// unchecked is an object that is created after something that it needs.
func (p previewer) unchecked(w plan.Wanted, reason string) report.Previewed {
	return withForms(previewed(w, report.ActionCreate, reason), kube.Resource{}, nil, w.Object)
}

// uncheckedChange is an object that is written after a change of its CRD. The server gives the
// defaults of the present one for the fields that the bundle dropped.
func (p previewer) uncheckedChange(ctx context.Context, c plan.Change) report.Previewed {
	const reason = "its CRD changes with the bundle, so that the server could not check it yet"
	if c.Live == nil {
		return p.unchecked(c.Wanted, reason)
	}
	body := c.Wanted.StampedOver(c.Live, c.Stamp, c.Resource)
	rest := ownership.Rest(body, c.Live)
	c.Stamp.Put(rest, c.Wanted.Form)
	if completed, err := p.replace(ctx, c, rest); err == nil {
		rest = completed
	}
	return withForms(previewed(c.Wanted, report.ActionChange, reason), c.Resource, c.Live, ownership.Overlay(body, rest))
}

// temporaryName replaces the name of an object that is recreated: while the
// object exists, the API server does not create another one of its name, not even
// in a dry run.
const temporaryName = "lockstep-preview"

// recreate previews an object that is deleted and created again. Where the kind does not accept
// another name, the preview shows the manifest, without the server's additions. refusal is why
// the object cannot be changed.
func (p previewer) recreate(ctx context.Context, c plan.Change, refusal error) (report.Previewed, error) {
	w := c.Wanted
	body := w.Stamped(applyset.StampOf(p.content), c.Resource)
	if err := p.Rehearse(ctx, c.Resource, body); err != nil {
		return report.Previewed{}, err
	}
	body.SetName(temporaryName)
	created, err := p.send(ctx, p.Client.Create, c.Resource, body)
	if err != nil {
		created = w.Object.DeepCopy()
	}
	created.SetName(w.Key.Name)
	return withForms(previewed(w, report.ActionRecreate, exec.Describe(w.Key, refusal)), c.Resource, c.Live, created), nil
}

// update asks for the result of an apply.
func (p previewer) update(ctx context.Context, c plan.Change) (*kube.Object, error) {
	body := c.Wanted.StampedOver(c.Live, c.Stamp, c.Resource)
	body.SetUID(c.Live.GetUID())
	body.SetResourceVersion(c.Live.GetResourceVersion())
	after, err := p.send(ctx, p.Client.Apply, c.Resource, body)
	if err != nil {
		return nil, err
	}
	if _, needed := ownership.TakeOver(body, c.Live); !needed {
		return after, nil
	}
	// A pass first moves the fields of our creation to our apply, and then applies. A dry run
	// of the apply does not see the first step. So the preview itself removes the fields that
	// the bundle dropped.
	dropped := ownership.WithoutDropped(after, body, c.Live)
	out, err := p.replace(ctx, c, dropped)
	if exec.Classify(err) == exec.Immutable {
		return nil, err
	}
	if err != nil {
		return dropped, nil //nolint:nilerr // it only misses the server's defaults here
	}
	return out, nil
}

// replace asks for the result of replacing the live object by another one.
func (p previewer) replace(ctx context.Context, c plan.Change, by *kube.Object) (*kube.Object, error) {
	return p.send(ctx, func(ctx context.Context, r kube.Resource, by *kube.Object) (*kube.Object, error) {
		return p.Client.Replace(ctx, r, c.Live, by)
	}, c.Resource, by)
}

// send repeats a dry run while its failure may pass.
func (p previewer) send(
	ctx context.Context, do func(context.Context, kube.Resource, *kube.Object) (*kube.Object, error), r kube.Resource, body *kube.Object,
) (out *kube.Object, err error) {
	err = p.Read(ctx, func(ctx context.Context) (err error) {
		out, err = do(ctx, r, body)
		return err
	})
	return out, err
}

// prune adds the objects that the bundle dropped.
func (p previewer) prune(out *report.Preview) {
	dropped := plan.MakePrune(plan.PruneInput{Wanted: p.Wanted, Observed: p.observed, Inventory: p.inventory, AllowMass: p.AllowMassPrune})
	out.PruneHeld = dropped.Brake
	failing := slices.ContainsFunc(out.Objects, func(o report.Previewed) bool { return o.Action == report.ActionFail && o.Required })
	if out.PruneHeld == "" && failing && len(dropped.Removals) > 0 {
		out.PruneHeld = "a required object fails"
	}
	for _, r := range dropped.Removals {
		action := report.ActionPrune
		if out.PruneHeld != "" {
			action = report.ActionHold
		}
		o := previewed(plan.Wanted{Key: r.Key}, action, out.PruneHeld)
		out.Objects = append(out.Objects, withForms(o, r.Resource, r.Live, nil))
	}
}

// previewed returns w with an action, without its forms.
func previewed(w plan.Wanted, a report.Action, message string) report.Previewed {
	return report.Previewed{
		Group: w.Key.Group, Kind: w.Key.Kind, Namespace: w.Key.Namespace, Name: w.Key.Name,
		Action: a, Message: message, Required: w.Required,
	}
}
