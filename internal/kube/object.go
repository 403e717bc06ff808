package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FieldManager is the name under which all writes are made (DESIGN 6.2).
const FieldManager = "lockstep"

// pageSize bounds what one answer of a list holds.
const pageSize = "500"

// metadataOnly asks for lists without the objects' contents. A server that knows
// nothing of that answers with them.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// Object is what is written and read.
type Object = unstructured.Unstructured

// Get reads one object, as it is now (a quorum read).
func (c *Client) Get(ctx context.Context, r Resource, namespace, name string) (*Object, error) {
	return c.object(ctx, Request{Verb: http.MethodGet, Path: r.Path(namespace, name)})
}

// List is what a list brought.
type List struct {
	Objects []*Object
	// Version is the resourceVersion of the whole: a watch from it on misses
	// nothing.
	Version string
}

// List reads all objects of r with the label selector, in all namespaces, as
// they are now.
func (c *Client) List(ctx context.Context, r Resource, selector string) (List, error) {
	return c.list(ctx, r, "", url.Values{"labelSelector": {selector}, "limit": {pageSize}}, "")
}

// ListSelected is List of what query selects in a namespace, or in all ("").
func (c *Client) ListSelected(ctx context.Context, r Resource, namespace string, query url.Values) (List, error) {
	return c.list(ctx, r, namespace, maps.Clone(query), "")
}

// ListMetadata is List with nothing but the objects' metadata.
func (c *Client) ListMetadata(ctx context.Context, r Resource, selector string) (List, error) {
	return c.list(ctx, r, "", url.Values{"labelSelector": {selector}, "limit": {pageSize}}, metadataOnly)
}

// ListRecentMetadata is ListMetadata as the apiserver remembers it, which may be
// some time ago. It is for what is checked again: an apiserver lets a list that
// has to be of now wait for up to 0.1 s, where there was one just before and the
// store has changed since.
func (c *Client) ListRecentMetadata(ctx context.Context, r Resource, selector string) (List, error) {
	return c.list(ctx, r, "", url.Values{"labelSelector": {selector}, "resourceVersion": {"0"}}, metadataOnly)
}

func (c *Client) list(ctx context.Context, r Resource, namespace string, query url.Values, accept string) (List, error) {
	var out List
	for {
		body, err := c.Do(ctx, Request{Verb: http.MethodGet, Path: r.Path(namespace, ""), Query: query, Accept: accept})
		if err != nil {
			return List{}, fmt.Errorf("list %s: %w", r.Name, err)
		}
		var p page
		if err := utiljson.Unmarshal(body, &p); err != nil {
			return List{}, fmt.Errorf("list %s: %w", r.Name, err)
		}
		out.Objects = append(out.Objects, p.objects()...)
		out.Version = p.Metadata.ResourceVersion // that of the first page, in each
		if p.Metadata.Continue == "" {
			return out, nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
}

// page is an answer of a list. It is read in one go: UnstructuredList reads the
// text several times, which takes longer than the answer itself.
type page struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Continue        string `json:"continue"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []map[string]any `json:"items"`
}

// objects returns the items. In the lists of most kinds they do not say what they
// are, since the list does.
func (p page) objects() []*Object {
	out := make([]*Object, 0, len(p.Items))
	for _, item := range p.Items {
		obj := &Object{Object: item}
		if obj.GetKind() == "" {
			obj.SetAPIVersion(p.APIVersion)
			obj.SetKind(strings.TrimSuffix(p.Kind, "List"))
		}
		out = append(out, obj)
	}
	return out
}

// Create makes an object that must not exist yet.
func (c *Client) Create(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	return c.create(ctx, r, obj, url.Values{})
}

// RehearseCreate is Create as a dry run. The server looks last of all whether
// there is an object of that name: AlreadyExists says that it has nothing else
// against it.
func (c *Client) RehearseCreate(ctx context.Context, r Resource, obj *Object) error {
	_, err := c.create(ctx, r, obj, url.Values{"dryRun": {metav1.DryRunAll}})
	return err
}

func (c *Client) create(ctx context.Context, r Resource, obj *Object, query url.Values) (*Object, error) {
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	query.Set("fieldManager", FieldManager)
	query.Set("fieldValidation", "Strict") // a misspelt field would be dropped without a word
	return c.object(ctx, Request{
		Verb: http.MethodPost, Path: r.Path(obj.GetNamespace(), ""), ContentType: "application/json", Body: body, Query: query,
	})
}

// Apply makes obj's fields so, by server-side apply with force. obj must have
// uid and resourceVersion: without the uid a missing object would be created
// (FACTS 2.1).
func (c *Client) Apply(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
		return nil, fmt.Errorf("apply %s %q: no uid or resourceVersion", obj.GetKind(), obj.GetName())
	}
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return c.object(ctx, Request{
		Verb: http.MethodPatch, Path: r.Path(obj.GetNamespace(), obj.GetName()), ContentType: "application/apply-patch+yaml", Body: body,
		Query: url.Values{"fieldManager": {FieldManager}, "force": {"true"}, "fieldValidation": {"Strict"}},
	})
}

// Update replaces an object. uid and resourceVersion in obj are preconditions.
func (c *Client) Update(ctx context.Context, r Resource, obj *Object) (*Object, error) {
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return c.object(ctx, Request{
		Verb: http.MethodPut, Path: r.Path(obj.GetNamespace(), obj.GetName()), ContentType: "application/json", Body: body,
		Query: url.Values{"fieldManager": {FieldManager}},
	})
}

// SetManagedFields replaces the field ownership of live and nothing else. It
// fails with a conflict where live is no longer what the API has.
func (c *Client) SetManagedFields(ctx context.Context, r Resource, live *Object, entries []metav1.ManagedFieldsEntry) (*Object, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "managedFields": entries,
	}})
	if err != nil {
		return nil, err
	}
	return c.object(ctx, Request{
		Verb: http.MethodPatch, Path: r.Path(live.GetNamespace(), live.GetName()), ContentType: "application/merge-patch+json", Body: body,
		Query: url.Values{"fieldManager": {FieldManager}},
	})
}

// Delete deletes live if it still is what the API has. What depends on it goes
// in the background.
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

func (c *Client) object(ctx context.Context, r Request) (*Object, error) {
	body, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &Object{}
	if err := out.UnmarshalJSON(body); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return out, nil
}
