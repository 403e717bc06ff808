package reconcile_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// memory makes the apiserver remember config maps as they were at the first list
// that need not be of now, and notes which lists of them there were.
type memory struct {
	mu    sync.Mutex // mu guards what follows
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
	m.note(what)
	resp, err := next.RoundTrip(req)
	if err != nil || what != "recent" {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(m.remember(data)))
	return resp, nil
}

func (m *memory) note(list string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists = append(m.lists, list)
}

// remember returns the first list that it was given.
func (m *memory) remember(list []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.body == nil {
		m.body = list
	}
	return m.body
}

// takeLists returns the lists since it was last called.
func (m *memory) takeLists() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lists := m.lists
	m.lists = nil
	return lists
}

// A change of content begins with a guess at what is there, which may be wrong, and
// ends with a list of what is there.
func TestPass_readsChangedAlone(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	m := &memory{}
	r.wire.setFault(m.fault)
	defer r.wire.setFault(nil)
	change := func(t *testing.T, release, a string, lists ...string) {
		t.Helper()
		_ = m.takeLists()
		r.use(release, configMap("a", "x: "+a), configMap("b", "x: one"))
		r.mustComplete()
		for name, want := range map[string]string{"a": a, "b": "one"} {
			if got := r.get(configMaps, r.ns, name).Object["data"].(map[string]any)["x"]; got != want {
				t.Errorf("%s: got x = %v, want %s", name, got, want)
			}
		}
		if got := m.takeLists(); !slices.Equal(got, lists) {
			t.Errorf("got lists %q, want %q", got, lists)
		}
	}
	t.Run("one changed", func(t *testing.T) {
		change(t, "1.0.1", "two", "now")
		want := []string{
			"GET /configmaps/set", "GET /configmaps/a", "PUT /configmaps/set", "PATCH /configmaps/a",
			"PUT /configmaps/set",
		}
		got := slices.DeleteFunc(r.wire.sent(), func(sent string) bool { return !strings.Contains(sent, "/namespaces/") })
		for i := range got {
			got[i] = strings.Replace(got[i], "/api/v1/namespaces/"+r.ns, "", 1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("what is to be written was deleted, what is not was changed", func(t *testing.T) {
		r.delete(configMaps, r.ns, "a")
		r.patch(configMaps, r.ns, "b", `{"data":{"x":"other"}}`)
		change(t, "1.0.2", "three", "now", "whole now", "now")
	})
	t.Run("all seems to be in place, and is not", func(t *testing.T) {
		r.delete(configMaps, r.ns, "b")
		change(t, "1.0.3", "three", "now", "now")
	})
	t.Run("what is to be written cannot be read", func(t *testing.T) {
		var tried atomic.Bool
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if isVerb(http.MethodGet, "/configmaps/a")(req) {
				tried.Store(true)
				return answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return m.fault(req, next)
		})
		defer r.wire.setFault(m.fault)
		change(t, "1.0.4", "four", "recent", "now")
		if !tried.Load() {
			t.Error("it was not tried")
		}
	})
}

// Where more objects change than are worth to be read one by one, the guess is a
// list that may be old.
func TestPass_manyChanged(t *testing.T) {
	r := newRig(t)
	many := func(x string) (out []string) {
		for i := range 40 {
			out = append(out, configMap(fmt.Sprintf("c-%d", i), "x: "+x))
		}
		return out
	}
	r.use("1.0.0", many("one")...)
	r.mustComplete()
	m := &memory{}
	r.wire.setFault(m.fault)
	defer r.wire.setFault(nil)
	r.survey() // the apiserver remembers what is there now
	r.delete(configMaps, r.ns, "c-0")
	r.patch(configMaps, r.ns, "c-1", `{"data":{"x":"other"}}`)
	_ = m.takeLists()
	r.use("1.0.1", many("two")...)
	r.mustComplete()
	for _, name := range []string{"c-0", "c-1", "c-2"} {
		if got := r.get(configMaps, r.ns, name).Object["data"].(map[string]any)["x"]; got != "two" {
			t.Errorf("%s: got x = %v, want two", name, got)
		}
	}
	if got, want := m.takeLists(), []string{"recent", "now"}; !slices.Equal(got, want) {
		t.Errorf("got lists %q, want %q", got, want)
	}
}
