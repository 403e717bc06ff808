package reconcile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

func (r *rig) survey() protocol.Mark {
	r.t.Helper()
	mark, err := r.reconciler.Survey(r.t.Context(), protocol.Work{}, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	return mark
}

func TestSurvey(t *testing.T) {
	r := newRig(t)
	r.useHeader("release: 1.2.0\nminReconcilerRelease: 1.1.0\nminApiserverRelease: 1.0.0", configMap("a", "x: one"))

	t.Run("nothing is there", func(t *testing.T) {
		if got := r.survey(); got.Kind != protocol.MarkAbsent {
			t.Errorf("got %+v, want it absent", got)
		}
	})
	t.Run("a first pass that is not finished leaves a mark without firstDone", func(t *testing.T) {
		r.use("1.2.0", configMap("a", "x: one"), "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n")
		if out, err := r.work(protocol.Work{Content: r.content, First: true}); err != nil || out.Complete {
			t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
		}
		got := r.survey()
		if got.Kind != protocol.MarkPresent || got.FirstDone || len(got.Entries) != 1 || got.Entries[0] != r.content {
			t.Errorf("got %+v, want the content without firstDone", got)
		}
	})
	r.useHeader("release: 1.2.0\nminReconcilerRelease: 1.1.0\nminApiserverRelease: 1.0.0", configMap("a", "x: two"))
	r.mustComplete()
	t.Run("the mark names what was made", func(t *testing.T) {
		got := r.survey()
		if got.Kind != protocol.MarkPresent || !got.FirstDone || len(got.Entries) != 1 || got.Entries[0] != r.content || got.HighestEpoch != r.epoch {
			t.Errorf("got %+v, want %v with firstDone", got, r.content)
		}
	})
	wantFromStamps := func(t *testing.T) {
		got := r.survey()
		if got.Kind != protocol.MarkPresent || !got.FirstDone || len(got.Entries) != 1 || got.HighestEpoch != r.epoch {
			t.Fatalf("got %+v, want one entry with firstDone", got)
		}
		e := got.Entries[0]
		if e.Release != r.content.Release || e.Epoch != r.epoch || e.Constraints.MinAPIServer != r.content.Constraints.MinAPIServer {
			t.Errorf("got %v, want release, epoch and A of %v", e, r.content)
		}
	}
	t.Run("the parent was deleted: the stamps tell", func(t *testing.T) {
		r.delete(configMaps, r.ns, "set")
		wantFromStamps(t)
	})
	t.Run("a pass restores the parent", func(t *testing.T) {
		r.mustComplete()
		if got := r.survey(); len(got.Entries) != 1 || got.Entries[0] != r.content || !got.FirstDone {
			t.Errorf("got %+v, want %v", got, r.content)
		}
	})
	t.Run("the mark is garbage: it is rebuilt from stamps, and a pass writes it again", func(t *testing.T) {
		r.patch(configMaps, r.ns, "set", `{"data":{"mark.json":"{garbage"}}`)
		wantFromStamps(t)
		r.mustComplete()
		if got := r.survey(); len(got.Entries) != 1 || got.Entries[0] != r.content {
			t.Errorf("got %+v, want %v", got, r.content)
		}
	})
	t.Run("garbage in a stamp does not count, and a pass replaces it", func(t *testing.T) {
		for _, epoch := range []string{"9223372036854775807", "-4", "many", "1e3", "+9", "09", ""} {
			// The fence takes no garbage for an epoch, but does not look at what has none.
			r.patch(configMaps, r.ns, "a", `{"metadata":{"annotations":{"lockstep.dev/content-epoch":null}}}`)
			r.patch(configMaps, r.ns, "a", `{"metadata":{"annotations":{"lockstep.dev/content-epoch":"`+epoch+`"}}}`)
			if got := r.survey(); got.HighestEpoch != r.epoch {
				t.Errorf("epoch %q: got highest epoch %d, want %d", epoch, got.HighestEpoch, r.epoch)
			}
			r.mustComplete()
			if got := r.get(configMaps, r.ns, "a").GetAnnotations()["lockstep.dev/content-epoch"]; got != "3" {
				t.Errorf("epoch %q: got %q after the pass, want 3", epoch, got)
			}
		}
	})
}

// TestSurvey_whatCounts: a user who may write one object does not steer the leader.
func TestSurvey_whatCounts(t *testing.T) {
	r := newRig(t)
	r.use("1.2.0", configMap("a", "x: one"))
	r.mustComplete()
	t.Run("objects are listed only where there is neither a mark nor a status", func(t *testing.T) {
		defer r.wire.setFault(nil)
		var lists atomic.Int64
		var stale atomic.Bool
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if query := req.URL.Query(); query.Has("labelSelector") {
				lists.Add(1)
				if query.Get("resourceVersion") == "0" {
					stale.Store(true)
				}
			}
			return next.RoundTrip(req)
		})
		if r.survey(); lists.Load() != 0 {
			t.Errorf("with a mark: got %d lists, want none", lists.Load())
		}
		r.delete(configMaps, r.ns, "set")
		covered := protocol.Content{Release: r.content.Release, Epoch: r.epoch}
		got, err := r.reconciler.Survey(t.Context(), protocol.Work{FallbackEntry: covered}, time.Time{})
		if err != nil || lists.Load() != 0 || len(got.Entries) != 1 || got.Entries[0] != covered {
			t.Errorf("with a status: got %+v, %v after %d lists, want what the status covers and no list", got, err, lists.Load())
		}
		if r.survey(); lists.Load() == 0 || stale.Load() {
			t.Errorf("without either: got %d lists, from a cache %t, want lists of now", lists.Load(), stale.Load())
		}
		r.mustComplete()
	})
	t.Run("a stamp on an object that is not in the bundle does not count", func(t *testing.T) {
		r.delete(configMaps, r.ns, "set")
		label, ours := "applyset.kubernetes.io/part-of", r.get(configMaps, r.ns, "a")
		r.create(configMaps, r.ns, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs","labels":{%q:%q},"annotations":`+
			`{"lockstep.dev/content-epoch":"77","lockstep.dev/release":"9.0.0","lockstep.dev/min-apiserver-release":"9.0.0"}}}`, label, ours.GetLabels()[label]))
		if got := r.survey(); len(got.Entries) != 1 || got.Entries[0].Release != r.content.Release || got.HighestEpoch != r.epoch {
			t.Errorf("got %+v, want the stamp on the bundle's object alone", got)
		}
	})
}

func TestSurvey_failed(t *testing.T) {
	r := newRig(t)
	r.use("1.2.0", configMap("a", "x: one"))
	r.mustComplete()

	t.Run("an API that does not answer is an error, never absent", func(t *testing.T) {
		r.wire.setFault(func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errors.New("gone") })
		defer r.wire.setFault(nil)
		_, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Time{})
		if _, ok := errors.AsType[*reconcile.UnreachableError](err); !ok {
			t.Errorf("got %v, want an UnreachableError", err)
		}
	})
	t.Run("a list that fails is an error", func(t *testing.T) {
		r.delete(configMaps, r.ns, "set")
		r.wire.setFault(refuseList)
		defer r.wire.setFault(nil)
		if mark, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Time{}); err == nil {
			t.Errorf("got %+v, want an error", mark)
		}
	})
	t.Run("all kinds that are refused are named", func(t *testing.T) {
		r.use("1.3.0", configMap("a", "x: one"), "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-p}\nvalue: 5\n")
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.URL.Query().Has("labelSelector") {
				return answer(http.StatusForbidden, "Forbidden", "it is forbidden"), nil
			}
			return next.RoundTrip(req)
		})
		defer r.wire.setFault(nil)
		const want = "4 kinds (ConfigMap, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, PriorityClass), of which the first: list what exists: list configmaps: it is forbidden"
		if _, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Time{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// refuseList answers lists of ConfigMaps with 403.
func refuseList(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if req.Method != http.MethodGet || req.URL.Path != "/api/v1/configmaps" {
		return next.RoundTrip(req)
	}
	return answer(http.StatusForbidden, "Forbidden", "configmaps is forbidden"), nil
}

// answer is an answer of the apiserver.
func answer(code int, reason, message string) *http.Response {
	rec := &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}}
	rec.Body = body(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","reason":"` + reason + `"}`)
	return rec
}

type stringBody struct{ *strings.Reader }

func (stringBody) Close() error { return nil }

func body(s string) stringBody { return stringBody{strings.NewReader(s)} }

// A POST has no precondition. One that lands late, after the parent was deleted
// again, must not bring back a mark without newer content.
func TestParentIsCreatedWithoutMark(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	var late []byte
	r.wire.once(isVerb("POST", "/configmaps"), func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		var err error
		if late, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(late))
		return next.RoundTrip(req)
	})
	r.mustComplete()
	r.use("1.0.1", configMap("a", "x: two"))
	r.mustComplete()
	r.delete(configMaps, r.ns, "set")
	r.create(configMaps, r.ns, string(late))
	if mark := r.survey(); mark.HighestEpoch != r.content.Epoch {
		t.Errorf("got %+v, want the stamps, with content epoch %d", mark, r.content.Epoch)
	}
	r.mustComplete()
	if mark := r.survey(); len(mark.Entries) != 1 || mark.Entries[0] != r.content {
		t.Errorf("got %+v, want the mark again", mark)
	}
}
