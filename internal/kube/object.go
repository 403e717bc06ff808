package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManager is the field manager of all writes (docs/protocol-objects.md#apply).
const FieldManager = "lockstep"

// metadataOnly asks for lists with nothing but the objects' metadata. A server that
// does not support it returns whole objects.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// Object is an API object of any kind.
type Object = unstructured.Unstructured

// Annotation returns one annotation of obj. GetAnnotations copies all of them.
func Annotation(obj *Object, name string) string {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[name].(string)
	return value
}

// Get reads one object, by a quorum read.
func (c *Client) Get(ctx context.Context, r Resource, namespace, name string) (*Object, error) {
	return c.object(ctx, Request{Verb: http.MethodGet, Path: r.Path(namespace, name)})
}

// List is the answer of a list.
type List struct {
	Objects []*Object
	// Version is the resourceVersion of the list. A watch from there on misses no
	// change.
	Version string
}

// Depth is how much of the objects a list brings.
type Depth int

// The depths.
const (
	Recent   Depth = iota + 1 // metadata, which may be old
	Metadata                  // metadata; takes a third of the time of Full
	Full
)

// List reads all objects of r that a label selector selects, in all namespaces. Only those that
// keep selects as well are decoded.
//
// Metadata and Full are quorum reads. Recent reads the kube-apiserver's cache, which may be behind.
// It is for lists whose result is checked again, and saves the wait: a quorum read that follows
// another takes up to 0.1 s if the store changed. The cache knows no pages: a list that is too
// large for one answer is read as Metadata.
func (c *Client) List(ctx context.Context, r Resource, selector string, d Depth, keep Filter) (List, error) {
	l := listing{keep: keep, query: url.Values{"labelSelector": {selector}}}
	if d != Full {
		l.accept = metadataOnly
	}
	if d == Recent && c.pages.size(r.Path("", "")+" "+metadataOnly) == maxPage {
		l.query.Set("resourceVersion", "0")
		l.whole = true
	}
	return c.list(ctx, r, "", l)
}

// ListSelected lists the objects that query selects in a namespace; in all if it
// is empty.
func (c *Client) ListSelected(ctx context.Context, r Resource, namespace string, query url.Values) (List, error) {
	return c.list(ctx, r, namespace, listing{query: maps.Clone(query), whole: true})
}

// Create creates an object, which must not exist yet.
func (c *Client) Create(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	return c.create(ctx, r, obj, url.Values{})
}

// RehearseCreate is Create as a dry run. The server checks last whether an object
// of that name exists: AlreadyExists means that it would accept the object
// otherwise.
func (c *Client) RehearseCreate(ctx context.Context, r Resource, obj *Object) error {
	_, err := c.create(ctx, r, obj, url.Values{"dryRun": {metav1.DryRunAll}})
	return err
}

func (c *Client) create(ctx context.Context, r Resource, obj *Object, query url.Values) (*Object, error) {
	query.Set("fieldManager", FieldManager)
	query.Set("fieldValidation", "Strict") // the server would ignore a misspelt field
	return c.write(ctx, Request{
		Verb: http.MethodPost, Path: r.Path(obj.GetNamespace(), ""), ContentType: "application/json", Query: query,
	}, obj.MarshalJSON)
}

// Apply sets the fields of obj by server-side apply, with force. obj must contain uid and
// resourceVersion: without the uid, the server would create a missing object
// (docs/upstream.md#server-side-apply). With Ignore the server parses the body as YAML once instead of twice. It refuses
// unknown fields all the same (docs/upstream.md#apply-unknown-fields).
func (c *Client) Apply(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
		return nil, fmt.Errorf("apply %s %q: no uid or resourceVersion", obj.GetKind(), obj.GetName())
	}
	return c.write(ctx, Request{
		Verb: http.MethodPatch, Path: r.Path(obj.GetNamespace(), obj.GetName()), ContentType: "application/apply-patch+yaml",
		Query: url.Values{"fieldManager": {FieldManager}, "force": {"true"}, "fieldValidation": {"Ignore"}},
	}, obj.MarshalJSON)
}

// Update replaces an object. The uid and resourceVersion of obj are preconditions.
func (c *Client) Update(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	return c.write(ctx, Request{
		Verb: http.MethodPut, Path: r.Path(obj.GetNamespace(), obj.GetName()), ContentType: "application/json",
		Query: url.Values{"fieldManager": {FieldManager}},
	}, obj.MarshalJSON)
}

// Replace makes live what obj is, except for its managedFields. It is a patch, since sidecars have no
// right to update objects of the bundle. The uid and resourceVersion of live are preconditions.
func (c *Client) Replace(ctx context.Context, r Resource, live, obj *Object) (*Object, error) {
	patch := mergePatch(live.Object, obj.Object)
	metadata, _ := patch["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	return c.merge(ctx, r, live, FieldManager, patch)
}

// mergePatch returns the JSON merge patch that makes before to after.
func mergePatch(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name := range before {
		if _, kept := after[name]; !kept {
			out[name] = nil
		}
	}
	for name, now := range after {
		old, wasMap := before[name].(map[string]any)
		value, isMap := now.(map[string]any)
		switch {
		case wasMap && isMap:
			if below := mergePatch(old, value); len(below) > 0 {
				out[name] = below
			}
		case !reflect.DeepEqual(before[name], now):
			out[name] = now
		}
	}
	return out
}

// EqualScalars compares two scalars of JSON; anything else differs. 1 and 1.0 are equal, as they are in JSON.
func EqualScalars(want, have any) bool {
	w, wok := Float(want)
	h, hok := Float(have)
	if wok && hok {
		return w == h
	}
	switch want.(type) {
	case nil, bool, string:
		return want == have
	}
	return false
}

// Float returns a number of JSON, and whether v is one.
func Float(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// SetManagedFields replaces the managedFields of live and nothing else. It fails
// with a conflict if live changed since it was read.
func (c *Client) SetManagedFields(ctx context.Context, r Resource, live *Object, entries []metav1.ManagedFieldsEntry) (*Object, error) {
	return c.merge(ctx, r, live, FieldManager, map[string]any{"metadata": map[string]any{"managedFields": entries}})
}

// merge changes live by a JSON merge patch, if it did not change since it was read.
func (c *Client) merge(ctx context.Context, r Resource, live *Object, manager string, patch map[string]any) (*Object, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = live.GetUID(), live.GetResourceVersion()
	patch["metadata"] = metadata
	return c.write(ctx, Request{
		Verb: http.MethodPatch, Path: r.Path(live.GetNamespace(), live.GetName()), ContentType: "application/merge-patch+json",
		Query: url.Values{"fieldManager": {manager}},
	}, func() ([]byte, error) { return json.Marshal(patch) })
}

// RepairManager is the field manager that removes annotations which others forged.
// The epoch policy does not let FieldManager remove them.
const RepairManager = FieldManager + "-repair"

// RemoveAnnotations removes annotations of live, as RepairManager. It fails with a
// conflict if live changed since it was read.
func (c *Client) RemoveAnnotations(ctx context.Context, r Resource, live *Object, names []string) (*Object, error) {
	annotations := map[string]any{}
	for _, name := range names {
		annotations[name] = nil
	}
	return c.merge(ctx, r, live, RepairManager, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// RemoveFinalizers removes all finalizers of live. It fails with a conflict if live changed since it was read.
func (c *Client) RemoveFinalizers(ctx context.Context, r Resource, live *Object) (*Object, error) {
	return c.merge(ctx, r, live, FieldManager, map[string]any{"metadata": map[string]any{"finalizers": nil}})
}

// Delete deletes live, if it did not change since it was read. The server deletes its
// dependents in the background.
func (c *Client) Delete(ctx context.Context, r Resource, live *Object) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	background := metav1.DeletePropagationBackground
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	})
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, Request{
		Verb: http.MethodDelete, Path: r.Path(live.GetNamespace(), live.GetName()), ContentType: "application/json", Body: body,
	})
	return err
}

// write sends a body, and returns the object as it is afterwards.
func (c *Client) write(ctx context.Context, r Request, body func() ([]byte, error)) (_ *Object, err error) {
	if r.Body, err = body(); err != nil {
		return nil, err
	}
	return c.object(ctx, r)
}

func (c *Client) object(ctx context.Context, r Request) (*Object, error) {
	body, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	out, err := new(decoder).kept(body, nil)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if out.GetKind() == "" {
		return nil, fmt.Errorf("read answer: %w: it has no kind", errSyntax)
	}
	return out, nil
}
