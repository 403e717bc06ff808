package kube

import (
	"net/http"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPath(t *testing.T) {
	core := Resource{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Name: "configmaps"}
	for want, got := range map[string]string{
		"/api/v1/configmaps":                            core.Path("", ""),
		"/api/v1/namespaces/n/configmaps/a":             core.Path("n", "a"),
		"/apis/x.test/v1/things":                        things.Path("", ""),
		"/apis/x.test/v1/things/system:x":               things.Path("", "system:x"),
		"/apis/x.test/v1/namespaces/n/things/..%2Fa%3F": things.Path("n", "../a?"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestResources(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/prefix/apis/x.test/v1" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("404 page not found"))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","resources":[
			{"name":"things/status","kind":"Thing","namespaced":true,"verbs":["get"]},
			{"name":"things","kind":"Thing","namespaced":true,"verbs":["get","list"]},
			{"name":"reviews","kind":"Review","namespaced":false,"verbs":["create"]}]}`))
	})
	got, err := c.Resources(t.Context(), schema.GroupVersion{Group: "x.test", Version: "v1"})
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if r := got["Thing"]; r.Name != "things" || !r.Namespaced || !r.HasStatus || !r.Listable {
		t.Errorf("got %+v", r)
	}
	if r := got["Review"]; r.HasStatus || r.Listable || r.Namespaced {
		t.Errorf("got %+v", r)
	}
	if got, err := c.Resources(t.Context(), schema.GroupVersion{Group: "y.test", Version: "v1"}); err != nil || got != nil {
		t.Errorf("got %v, %v for a group that is not served, want nothing", got, err)
	}
}

func TestVersions(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/prefix/apis/x.test" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"kind":"APIGroup","versions":[{"version":"v1beta1"},{"version":"v1"}],"preferredVersion":{"version":"v1"}}`))
	})
	for group, want := range map[string][]schema.GroupVersion{
		"x.test": {{Group: "x.test", Version: "v1"}, {Group: "x.test", Version: "v1beta1"}}, "y.test": nil, "": {{Version: "v1"}},
	} {
		got, err := c.Versions(t.Context(), group)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", group, got, err, want)
		}
	}
}
