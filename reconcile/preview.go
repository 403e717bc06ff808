package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Preview says what a pass over the newest bundle would do, by the server's own
// dry runs. It never writes, needs no leadership and no lease, and may be called
// beside a leader that works.
func (r *Reconciler) Preview(ctx context.Context) (report.Preview, error) {
	b := r.cfg.Bundle.Get()
	if b == nil {
		return report.Preview{}, errors.New("preview: there is no bundle")
	}
	objects, err := r.wanted(b)
	if err != nil {
		return report.Preview{}, err
	}
	client, err := kube.New(dryRun(r.cfg.RESTConfig), r.cfg.UserAgent)
	if err != nil {
		return report.Preview{}, fmt.Errorf("preview: %w", err)
	}
	defer client.CloseIdle()
	p := previewer{
		api:    api{client: client, lease: endless, unsure: new(doubt)},
		env:    &r.env,
		wanted: objects,
	}
	out, err := p.run(ctx, b)
	if err != nil {
		return report.Preview{}, fmt.Errorf("preview: %w", err)
	}
	return out, nil
}

// dryRun returns a configuration by which nothing can be written, whatever is
// asked for.
func dryRun(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunner{next} })
	return out
}

// dryRunner makes every request a dry run.
type dryRunner struct{ next http.RoundTripper }

// RoundTrip refuses DELETE: where that has a body, the server takes its options
// from there, and a dryRun in the query would count for nothing.
func (d dryRunner) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet:
		return d.next.RoundTrip(req)
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		dry := req.Clone(req.Context())
		query := dry.URL.Query()
		query.Set("dryRun", "All")
		dry.URL.RawQuery = query.Encode()
		return d.next.RoundTrip(dry)
	}
	return nil, fmt.Errorf("a preview makes no %s", req.Method)
}

// previewer makes one preview.
type previewer struct {
	api
	env     *env
	wanted  []wanted
	content protocol.Content
}

func (p previewer) run(ctx context.Context, b *bundle.Bundle) (report.Preview, error) {
	parent, err := p.readParent(ctx, p.env.set)
	if err != nil {
		return report.Preview{}, err
	}
	f, err := p.env.gatherer(p.api).gather(ctx, kindsOf(p.wanted), parent.Contents.Kinds, whole)
	if err != nil {
		return report.Preview{}, err
	}
	p.content = protocol.Content{
		Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest,
		// Above all that is there, or the fence would refuse it.
		Epoch: 1 + max(highestEpoch(f.live), parent.Mark.HighestEpoch()),
	}
	plan := makePlan(world{set: p.env.set, content: p.content, wanted: p.wanted, kinds: f.kinds, live: f.live}, nil)
	out := report.Preview{PruneImmediately: b.PruneImmediately}
	if out.Objects, err = p.objects(ctx, f, plan); err != nil {
		return report.Preview{}, err
	}
	p.prune(&out, f)
	return out, nil
}

// objects previews each object of the bundle, in the order of writing.
func (p previewer) objects(ctx context.Context, f found, plan plan) ([]report.Previewed, error) {
	changes := map[applyset.Key]change{}
	for _, wave := range plan.changes {
		for _, c := range wave {
			changes[c.wanted.key] = c
		}
	}
	sorted := slices.Clone(p.wanted)
	slices.SortStableFunc(sorted, func(a, b wanted) int { return int(a.wave - b.wave) })
	pending := (&pass{wanted: p.wanted, found: f}).pending()
	out := make([]report.Previewed, len(sorted))
	err := each(ctx, p.env.concurrency, len(sorted), func(ctx context.Context, i int) (err error) {
		w := sorted[i]
		c, differs := changes[w.key]
		problem := plan.problems[w.key]
		switch {
		case differs:
			out[i], err = p.object(ctx, c)
		case problem != "" && slices.Contains(pending, w.gvk):
			out[i] = p.unchecked(w, "its kind comes with the bundle, so that the server could not check it yet")
		case problem != "":
			out[i] = w.previewed(report.ActionFail, problem)
		default:
			out[i] = w.previewed(report.ActionNone, "")
		}
		return err
	})
	return out, err
}

// object previews one object that differs, or may.
func (p previewer) object(ctx context.Context, c change) (report.Previewed, error) {
	for attempt := 1; ; attempt++ {
		out, err := p.turn(ctx, c)
		if err == nil {
			return out, nil
		}
		err = conclude(err)
		switch {
		case endsPass(err):
			return out, fmt.Errorf("%s: %w", c.wanted.key, err)
		case judge(err) != again || attempt == maxAttempts:
			return c.wanted.previewed(report.ActionFail, c.wanted.failure(err)), nil
		}
		a := applier{api: p.api, change: c}
		if err := a.reread(ctx); err != nil {
			return out, err
		}
		c.live = a.live
	}
}

// turn asks the server once what would become of an object.
func (p previewer) turn(ctx context.Context, c change) (report.Previewed, error) {
	w := c.wanted
	if c.live == nil {
		return p.create(ctx, c)
	}
	if c.live.GetDeletionTimestamp() != nil {
		return report.Previewed{}, errDeleting
	}
	s, needed := decide(w, c.live, p.content, placed{})
	if !needed {
		return w.previewed(report.ActionNone, ""), nil
	}
	c.stamp = s
	after, err := p.update(ctx, c)
	if err != nil && judge(err) == immutable && w.recreates(err) {
		return p.recreate(ctx, c, err)
	}
	if err != nil {
		return report.Previewed{}, err
	}
	out := withForms(w.previewed(report.ActionChange, ""), c.resource, c.live, after)
	if reflect.DeepEqual(out.Live, out.Wanted) {
		return w.previewed(report.ActionNone, ""), nil // the server had normalized it, or the stamp alone is new
	}
	return out, nil
}

func (p previewer) create(ctx context.Context, c change) (report.Previewed, error) {
	w := c.wanted
	made, err := p.send(ctx, func(ctx context.Context) (*kube.Object, error) {
		return p.client.Create(ctx, c.resource, w.stamped(applyset.StampOf(p.content), c.resource))
	})
	switch {
	case apierrors.IsNotFound(err) && p.brings(w.key.Namespace):
		return p.unchecked(w, "its namespace comes with the bundle, so that the server could not check it yet"), nil
	case err != nil:
		return report.Previewed{}, err
	}
	return withForms(w.previewed(report.ActionCreate, ""), c.resource, nil, made), nil
}

// brings reports whether the bundle has the namespace.
func (p previewer) brings(namespace string) bool {
	return slices.ContainsFunc(p.wanted, func(w wanted) bool {
		return w.key.Kind == "Namespace" && w.key.Group == "" && w.key.Name == namespace
	})
}

// unchecked is an object that is created after what it needs.
func (p previewer) unchecked(w wanted, why string) report.Previewed {
	return withForms(w.previewed(report.ActionCreate, why), kube.Resource{}, nil, w.obj)
}

// previewName stands for the name of an object that is recreated: while it is
// there, the server makes none of its name, not even in a dry run.
const previewName = "lockstep-preview"

// recreate previews an object that is created again. Where the kind does not
// bear another name the manifest has to do, without what the server adds. refusal
// is why it cannot be changed.
func (p previewer) recreate(ctx context.Context, c change, refusal error) (report.Previewed, error) {
	w := c.wanted
	again := w.stamped(applyset.StampOf(p.content), c.resource)
	if err := p.rehearse(ctx, c.resource, again); err != nil {
		return report.Previewed{}, err
	}
	again.SetName(previewName)
	made, err := p.send(ctx, func(ctx context.Context) (*kube.Object, error) {
		return p.client.Create(ctx, c.resource, again)
	})
	if err != nil {
		made = w.obj.DeepCopy()
	}
	made.SetName(w.key.Name)
	return withForms(w.previewed(report.ActionRecreate, describe(w.key, refusal)), c.resource, c.live, made), nil
}

// update asks what an apply would make of the object.
func (p previewer) update(ctx context.Context, c change) (*kube.Object, error) {
	body := c.wanted.stamped(c.stamp, c.resource)
	body.SetUID(c.live.GetUID())
	body.SetResourceVersion(c.live.GetResourceVersion())
	after, err := p.send(ctx, func(ctx context.Context) (*kube.Object, error) {
		return p.client.Apply(ctx, c.resource, body)
	})
	if err != nil {
		return nil, err
	}
	if _, needed := ownership.TakeOver(body, c.live); !needed {
		return after, nil
	}
	// The pass moves what a creation left to what an apply owns, and then
	// applies. A dry run of the second does not see the first: so what the
	// bundle dropped is taken out by hand.
	dropped := ownership.WithoutDropped(after, body, c.live)
	out, err := p.send(ctx, func(ctx context.Context) (*kube.Object, error) {
		return p.client.Update(ctx, c.resource, dropped)
	})
	if judge(err) == immutable {
		return nil, err
	}
	if err != nil {
		return dropped, nil //nolint:nilerr // the server lacks nothing but defaults here
	}
	return out, nil
}

// send repeats a dry run while its failure may pass.
func (p previewer) send(ctx context.Context, do func(context.Context) (*kube.Object, error)) (out *kube.Object, err error) {
	err = p.read(ctx, func(ctx context.Context) (err error) {
		out, err = do(ctx)
		return err
	})
	return out, err
}

// prune adds what the bundle dropped.
func (p previewer) prune(out *report.Preview, f found) {
	set := makePruneSet(pruneInput{wanted: p.wanted, kinds: f.kinds, live: f.live, allowMass: p.env.allowMassPrune})
	out.PruneHeld = set.held
	failing := slices.ContainsFunc(out.Objects, func(o report.Previewed) bool { return o.Action == report.ActionFail && o.Required })
	if out.PruneHeld == "" && failing && len(set.removals) > 0 {
		out.PruneHeld = "a required object fails"
	}
	for _, r := range set.removals {
		action := report.ActionPrune
		if out.PruneHeld != "" {
			action = report.ActionHold
		}
		gone := wanted{key: r.key, gvk: r.resource.GroupVersionKind}.previewed(action, out.PruneHeld)
		out.Objects = append(out.Objects, withForms(gone, r.resource, r.live, nil))
	}
}

// previewed is the object with an action, without its forms.
func (w wanted) previewed(a report.Action, message string) report.Previewed {
	return report.Previewed{
		Group: w.key.Group, Kind: w.key.Kind, Namespace: w.key.Namespace, Name: w.key.Name,
		Action: a, Message: message, Required: w.required,
	}
}

// withForms returns o with its forms, as people may see them.
func withForms(o report.Previewed, r kube.Resource, live, after *kube.Object) report.Previewed {
	o.Live, o.Wanted = shown(live, r), shown(after, r)
	if o.Kind == "Secret" && o.Group == "" {
		mask(o.Live, o.Wanted)
	}
	return o
}

// shown is an object without what the server and Lockstep set by themselves.
func shown(obj *kube.Object, r kube.Resource) map[string]any {
	if obj == nil {
		return nil
	}
	out := &kube.Object{Object: runtime.DeepCopyJSON(obj.Object)}
	if r.HasStatus {
		delete(out.Object, "status")
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		delete(out.Object["metadata"].(map[string]any), field)
	}
	withoutAnnotations(out, bundle.StampAnnotations()...)
	return out.Object
}
