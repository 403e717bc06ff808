package reconcile_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"testing"
)

// memory makes the apiserver remember config maps as they were at the first list
// that need not be of now, and notes which lists of them there were.
type memory struct {
	body  []byte
	lists []string // "recent" or "now", with "whole" where more than metadata was asked for
}

func (m *memory) fault(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	query := req.URL.Query()
	if req.URL.Path != "/api/v1/configmaps" || !query.Has("labelSelector") {
		return next.RoundTrip(req)
	}
	what := "now"
	if query.Get("resourceVersion") == "0" {
		what = "recent"
	}
	if req.Header.Get("Accept") == "application/json" {
		what = "whole " + what
	}
	m.lists = append(m.lists, what)
	resp, err := next.RoundTrip(req)
	if err != nil || what != "recent" {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if m.body == nil {
		m.body = body
	}
	resp.Body = io.NopCloser(bytes.NewReader(m.body))
	return resp, err
}

// A change of content begins with a guess at what is there, which may be old, and
// ends with a list of what is there.
func TestGuessThatIsOld(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	m := &memory{}
	r.wire.setFault(m.fault)
	defer r.wire.setFault(nil)
	r.survey()
	want := func(t *testing.T, a, b string, lists ...string) {
		t.Helper()
		for name, x := range map[string]string{"a": a, "b": b} {
			if got := r.get(configMaps, r.ns, name).Object["data"].(map[string]any)["x"]; got != x {
				t.Errorf("%s: got x = %v, want %s", name, got, x)
			}
		}
		if !slices.Equal(m.lists, lists) {
			t.Errorf("got lists %q, want %q", m.lists, lists)
		}
	}
	t.Run("what is to be written was deleted, what is not was changed", func(t *testing.T) {
		r.delete(configMaps, r.ns, "a")
		r.patch(configMaps, r.ns, "b", `{"data":{"x":"other"}}`)
		r.use("1.0.1", configMap("a", "x: two"), configMap("b", "x: one"))
		m.lists = nil
		r.mustComplete()
		want(t, "two", "one", "recent", "now", "whole now", "now")
	})
	t.Run("all seems to be in place", func(t *testing.T) {
		m.body = nil
		r.survey()
		r.patch(configMaps, r.ns, "b", `{"data":{"x":"other"}}`)
		r.use("1.0.2", configMap("a", "x: two"), configMap("b", "x: one"))
		m.lists = nil
		r.mustComplete()
		want(t, "two", "one", "recent", "now", "whole now", "now")
	})
	t.Run("one changed: no contents are read", func(t *testing.T) {
		m.body = nil
		r.use("1.0.3", configMap("a", "x: three"), configMap("b", "x: one"))
		m.lists = nil
		r.mustComplete()
		want(t, "three", "one", "recent", "now")
	})
}
