package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind as one kube-apiserver serves it.
type Resource struct {
	schema.GroupVersionKind
	Name       string // in paths, like "configmaps"
	Namespaced bool
	HasStatus  bool // status is a subresource: writes of the object do not change it
	Listable   bool
	Watchable  bool
}

// Path returns the path of an object; without a name, of all objects of the
// namespace; without a namespace as well, of all objects.
func (r Resource) Path(namespace, name string) string {
	parts := []string{"/api", r.Version}
	if r.Group != "" {
		parts = []string{"/apis", r.Group, r.Version}
	}
	if namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(namespace))
	}
	parts = append(parts, r.Name)
	if name != "" {
		parts = append(parts, url.PathEscape(name))
	}
	return strings.Join(parts, "/")
}

// Resources returns the kinds that the kube-apiserver serves in gv, by name. A group version
// that it does not serve contains none; that is not an error.
func (c *Client) Resources(ctx context.Context, gv schema.GroupVersion) (map[string]Resource, error) {
	path := "/apis/" + url.PathEscape(gv.Group) + "/" + url.PathEscape(gv.Version)
	if gv.Group == "" {
		path = "/api/" + url.PathEscape(gv.Version)
	}
	var list metav1.APIResourceList
	found, err := c.document(ctx, path, &list)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", gv, err)
	}
	if !found {
		return nil, nil
	}
	return byKind(gv, list.APIResources), nil
}

// document reads a document that is no object, and reports whether it exists.
func (c *Client) document(ctx context.Context, path string, out any) (found bool, err error) {
	body, err := c.Do(ctx, Request{Verb: http.MethodGet, Path: path})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(body, out)
	}
	return err == nil, err
}

func byKind(gv schema.GroupVersion, served []metav1.APIResource) map[string]Resource {
	out := map[string]Resource{}
	status := map[string]bool{}
	for _, r := range served {
		if name, sub, isSub := strings.Cut(r.Name, "/"); isSub {
			status[name] = status[name] || sub == "status"
		}
	}
	for _, r := range served {
		if strings.Contains(r.Name, "/") {
			continue
		}
		out[r.Kind] = Resource{
			GroupVersionKind: gv.WithKind(r.Kind), Name: r.Name, Namespaced: r.Namespaced,
			HasStatus: status[r.Name], Listable: slices.Contains(r.Verbs, "list"),
			Watchable: slices.Contains(r.Verbs, "watch"),
		}
	}
	return out
}

// Versions returns the versions of a group that the kube-apiserver serves, its
// preferred version first; none if it does not serve the group.
func (c *Client) Versions(ctx context.Context, group string) ([]schema.GroupVersion, error) {
	if group == "" {
		return []schema.GroupVersion{{Version: "v1"}}, nil
	}
	var g metav1.APIGroup
	found, err := c.document(ctx, "/apis/"+url.PathEscape(group), &g)
	if err != nil {
		return nil, fmt.Errorf("discover group %s: %w", group, err)
	}
	if !found {
		return nil, nil
	}
	g.Name = group
	return versionsOf(g), nil
}

func versionsOf(g metav1.APIGroup) []schema.GroupVersion {
	out := []schema.GroupVersion{{Group: g.Name, Version: g.PreferredVersion.Version}}
	for _, v := range g.Versions {
		if gv := (schema.GroupVersion{Group: g.Name, Version: v.Version}); gv != out[0] {
			out = append(out, gv)
		}
	}
	return out
}

// GroupVersions returns all group versions that the kube-apiserver serves, for each
// group its preferred version first.
func (c *Client) GroupVersions(ctx context.Context) ([]schema.GroupVersion, error) {
	body, err := c.Do(ctx, Request{Verb: http.MethodGet, Path: "/apis"})
	if err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	var list metav1.APIGroupList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	out := []schema.GroupVersion{{Version: "v1"}}
	for _, g := range list.Groups {
		out = append(out, versionsOf(g)...)
	}
	return out, nil
}

// builtIn lists the API groups of a kube-apiserver itself. Aggregated APIs and CRDs cannot be
// in them.
var builtIn = map[string]bool{
	"": true, "apps": true, "autoscaling": true, "batch": true, "policy": true,
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "apiregistration.k8s.io": true,
	"authentication.k8s.io": true, "authorization.k8s.io": true, "certificates.k8s.io": true,
	"coordination.k8s.io": true, "discovery.k8s.io": true, "events.k8s.io": true,
	"flowcontrol.apiserver.k8s.io": true, "internal.apiserver.k8s.io": true, "networking.k8s.io": true,
	"node.k8s.io": true, "rbac.authorization.k8s.io": true, "resource.k8s.io": true,
	"scheduling.k8s.io": true, "storage.k8s.io": true, "storagemigration.k8s.io": true,
}

// BuiltIn reports whether a group is one of the kube-apiserver itself.
func BuiltIn(group string) bool { return builtIn[group] }

// AggregatedBy returns the Service to which the kube-apiserver forwards the requests
// for gv, as "namespace/name"; empty: it handles them itself.
func (c *Client) AggregatedBy(ctx context.Context, gv schema.GroupVersion) (string, error) {
	var service struct {
		Spec struct {
			Service *struct{ Namespace, Name string }
		}
	}
	// There is none for the kind of a CRD that was just created.
	_, err := c.document(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/"+url.PathEscape(gv.Version+"."+gv.Group), &service)
	if err != nil {
		return "", fmt.Errorf("read the APIService of %s: %w", gv, err)
	}
	if s := service.Spec.Service; s != nil {
		return s.Namespace + "/" + s.Name, nil
	}
	return "", nil
}
