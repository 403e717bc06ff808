package kube

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
)

// Reads that decisions rest on are quorum reads: with a resourceVersion, the
// kube-apiserver would answer from its cache, which can be older than what another
// kube-apiserver has written.
func TestReads_areQuorumReads(t *testing.T) {
	queries := make(chan url.Values, 1)
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		queries <- req.URL.Query()
		_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"ThingList","metadata":{"name":"a","resourceVersion":"7"},"items":[]}`))
	})
	for name, read := range map[string]func() error{
		"Get":      func() error { _, err := c.Get(t.Context(), things, "n", "a"); return err },
		"Full":     func() error { _, err := c.List(t.Context(), things, "a=b", Full, nil); return err },
		"Metadata": func() error { _, err := c.List(t.Context(), things, "a=b", Metadata, nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(); err != nil {
				t.Fatal(err)
			}
			if q := <-queries; q.Has("resourceVersion") || q.Has("resourceVersionMatch") {
				t.Errorf("got %v", q)
			}
		})
	}
}

// Requests that change or delete an object have its uid and resourceVersion, so that
// a stale one fails.
func TestWrites_havePreconditions(t *testing.T) {
	bodies := make(chan map[string]any, 1)
	c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		bodies <- decodeBody(t, req)
		_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
	})
	obj := &Object{}
	if err := obj.UnmarshalJSON([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}`)); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]struct {
		in string // where the preconditions are
		do func() error
	}{
		"Apply":            {"metadata", func() error { _, err := c.Apply(t.Context(), things, obj); return err }},
		"Update":           {"metadata", func() error { _, err := c.Update(t.Context(), things, obj); return err }},
		"SetManagedFields": {"metadata", func() error { _, err := c.SetManagedFields(t.Context(), things, obj, nil); return err }},
		"Delete":           {"preconditions", func() error { return c.Delete(t.Context(), things, obj) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write.do(); err != nil {
				t.Fatal(err)
			}
			body := <-bodies
			got, _ := body[write.in].(map[string]any)
			if got["uid"] != "u" || got["resourceVersion"] != "7" {
				t.Errorf("got %v", body)
			}
		})
	}
}

func decodeBody(t *testing.T, req *http.Request) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.NewDecoder(req.Body).Decode(&out); err != nil {
		t.Error(err)
	}
	return out
}
