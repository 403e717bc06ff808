package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var things = Resource{GroupVersionKind: schema.GroupVersionKind{Group: "x.test", Version: "v1", Kind: "Thing"}, Name: "things", Namespaced: true}

// newClient returns a client of a server that answers with handler.
func newClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL + "/prefix"}, "lockstep/test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

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

func TestDo(t *testing.T) {
	t.Run("sends path, user agent and time limit", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
			if got := req.URL.EscapedPath(); got != "/prefix/apis/x.test/v1/namespaces/n/things/..%2Fa" {
				t.Errorf("got path %s", got)
			}
			if got := req.UserAgent(); got != "lockstep/test" {
				t.Errorf("got user agent %q", got)
			}
			d, err := time.ParseDuration(req.URL.Query().Get("timeout"))
			if err != nil || d > 2*time.Second || d < time.Second {
				t.Errorf("got timeout %s, %v, want just below 2 s", d, err)
			}
			_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		obj, err := c.Get(ctx, things, "n", "../a")
		if err != nil || obj.GetName() != "a" {
			t.Errorf("got %v, %v", obj, err)
		}
	})
	t.Run("an error has the API's message", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"modified","reason":"Conflict","code":409}`))
		})
		_, err := c.Get(t.Context(), things, "n", "a")
		if !apierrors.IsConflict(err) || err.Error() != "modified" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an error that is no Status has its code and pause", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("slow down"))
		})
		_, err := c.Get(t.Context(), things, "n", "a")
		seconds, suggested := apierrors.SuggestsClientDelay(err)
		if !apierrors.IsTooManyRequests(err) || !suggested || seconds != 3 {
			t.Errorf("got %v, %d", err, seconds)
		}
	})
	t.Run("a request without an answer may have taken effect", func(t *testing.T) {
		c := newClient(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Get(ctx, things, "n", "a")
		var transport *TransportError
		if !errors.As(err, &transport) || transport.Unsent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a TransportError", err)
		}
	})
	t.Run("without a connection, nothing was sent", func(t *testing.T) {
		c, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Get(t.Context(), things, "n", "a")
		var transport *TransportError
		if !errors.As(err, &transport) || !transport.Unsent {
			t.Errorf("got %v, want a TransportError that was never sent", err)
		}
	})
}

func TestList(t *testing.T) {
	pages := map[string]string{"": "p1", "p1": "p2", "p2": ""}
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		next := pages[req.URL.Query().Get("continue")]
		_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"ThingList","metadata":{"resourceVersion":"7","continue":` + strconv.Quote(next) + `},"items":[{"metadata":{"name":"a` + next + `"}}]}`))
	})
	list, err := c.List(t.Context(), things, "a=b")
	objects := list.Objects
	if err != nil || list.Version != "7" || len(objects) != 3 || objects[2].GetName() != "a" || objects[0].GetKind() != "Thing" {
		t.Errorf("got %v, %v, want three pages of one", objects, err)
	}
}

// TestMetadata_notSupported: an aggregated API server may not support lists of
// metadata, and then returns whole objects.
func TestMetadata_notSupported(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		if !slices.Contains(strings.Split(req.Header.Get("Accept"), ","), "application/json") {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		if req.URL.Query().Has("watch") {
			_, _ = w.Write([]byte(`{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"a"},"spec":{}}}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"ThingList","items":[{"metadata":{"name":"a"},"spec":{}}]}`))
	})
	list, err := c.ListMetadata(t.Context(), things, "a=b")
	if err != nil || len(list.Objects) != 1 || list.Objects[0].GetName() != "a" {
		t.Errorf("list: got %v, %v", list, err)
	}
	s, err := c.WatchMetadata(t.Context(), things, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if e, err := s.Next(); err != nil || e.Object.GetName() != "a" {
		t.Errorf("watch: got %v, %v", e, err)
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
	for group, want := range map[string][]string{"x.test": {"v1", "v1beta1"}, "y.test": nil, "": {"v1"}} {
		got, err := c.Versions(t.Context(), group)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", group, got, err, want)
		}
	}
}

func TestApplyNeedsPreconditions(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, edit := range []func(*Object){
		func(*Object) {},
		func(o *Object) { o.SetUID("u") },
		func(o *Object) { o.SetResourceVersion("7") }, // without a uid, the server would create a missing object
	} {
		obj := &Object{Object: map[string]any{}}
		edit(obj)
		if _, err := c.Apply(t.Context(), things, obj); err == nil {
			t.Error("got no error")
		}
	}
}
