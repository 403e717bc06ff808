package kube

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	following := map[string]string{"": "p1", "p1": "p2", "p2": ""}
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		next := following[req.URL.Query().Get("continue")]
		_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"ThingList","metadata":{"resourceVersion":"7","continue":` + strconv.Quote(next) + `},"items":[{"metadata":{"name":"a` + next + `"}}]}`))
	})
	list, err := c.List(t.Context(), things, "a=b", Full, nil)
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
	list, err := c.List(t.Context(), things, "a=b", Metadata, nil)
	if err != nil || len(list.Objects) != 1 || list.Objects[0].GetName() != "a" {
		t.Errorf("list: got %v, %v", list, err)
	}
	s, err := c.WatchMetadata(t.Context(), things, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if e, err := s.Next(); err != nil || e.Object.GetName() != "a" {
		t.Errorf("watch: got %v, %v", e, err)
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
