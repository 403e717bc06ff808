package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func TestLostAnswers(t *testing.T) {
	r := newRig(t)
	tests := []struct {
		name        string
		verb, part  string
		data        string
		wantApplied int
	}{
		{"of the mark's creation", "POST", "/configmaps", "x: one", 1 + fenceObjects},
		{"of a creation", "POST", "/configmaps", "x: one", 1},
		{"of an update", "PATCH", "/configmaps/", "x: two", 1},
		{"of the mark's update", "PUT", "/configmaps/set", "x: three", 1},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if i == 1 {
				r.delete(configMaps, r.ns, "a")
			}
			r.use("1.0.0", configMap("a", tt.data))
			var lost atomic.Bool
			r.wire.once(isVerb(tt.verb, tt.part), func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				lost.Store(true)
				return loseAnswer(req, next)
			})
			defer r.wire.setFault(nil)
			r.mustComplete()
			if !lost.Load() {
				t.Error("no answer was lost")
			}
			if got := r.report().Objects.Applied; got != tt.wantApplied {
				t.Errorf("got %d applied, want %d", got, tt.wantApplied)
			}
			_, value, _ := strings.Cut(tt.data, ": ")
			if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != value {
				t.Errorf("got x = %v, want %s", got, value)
			}
		})
	}
	t.Run("of a removal", func(t *testing.T) {
		r.use("1.0.1", configMap("b", "x: one"))
		r.wire.once(isVerb("DELETE", "/configmaps/a"), loseAnswer)
		defer r.wire.setFault(nil)
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "a")
	})
}

func TestBusyServer(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		t.Run("answers "+strconv.Itoa(code)+" once to each verb", func(t *testing.T) {
			r.use("1.0.0", configMap("a", "x: v"+strconv.Itoa(code)))
			var posts, patches, lists atomic.Int32
			r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				counter := map[string]*atomic.Int32{"POST": &posts, "PATCH": &patches, "GET": &lists}[req.Method]
				if counter != nil && counter.Add(1) == 1 {
					return answer(code, "Busy", "busy"), nil
				}
				return next.RoundTrip(req)
			})
			defer r.wire.setFault(nil)
			r.mustComplete()
		})
	}
	t.Run("Retry-After is obeyed", func(t *testing.T) {
		r.use("1.0.0", configMap("a", "x: later"))
		r.wire.once(isVerb("PATCH", ""), func(*http.Request, http.RoundTripper) (*http.Response, error) {
			resp := answer(http.StatusTooManyRequests, "TooManyRequests", "busy")
			resp.Header.Set("Retry-After", "1")
			return resp, nil
		})
		defer r.wire.setFault(nil)
		r.mustComplete()
		if took := r.report().DurationSeconds; took < 1 {
			t.Errorf("got a pass of %g s, want at least the second that the server asked for", took)
		}
	})
	t.Run("one object that always gets 500 fails alone", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: after"), configMap("b", "x: one"))
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.Method == "PATCH" && strings.HasSuffix(req.URL.Path, "/a") {
				return answer(http.StatusInternalServerError, "InternalError", "a webhook is down"), nil
			}
			return next.RoundTrip(req)
		})
		defer r.wire.setFault(nil)
		out, err := r.pass()
		if err != nil || out.Complete {
			t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
		}
		got := r.report()
		if len(got.Failures) != 1 || got.Failures[0].Message != "a webhook is down" || got.Objects.Applied != 1 {
			t.Errorf("got %+v, want b applied and a failed with the API's message", got)
		}
	})
}

func TestConflicts(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	t.Run("another client writes between the list and the apply", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: two"))
		r.wire.once(isVerb("PATCH", "/a"), r.before(func(client *rig) {
			client.patch(configMaps, client.ns, "a", `{"data":{"other":"theirs"}}`)
		}))
		defer r.wire.setFault(nil)
		r.mustComplete()
		data := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)
		if data["x"] != "two" || data["other"] != "theirs" {
			t.Errorf("got %v, want both changes", data)
		}
	})
	t.Run("another client deletes between the list and the apply", func(t *testing.T) {
		r.use("1.0.2", configMap("a", "x: three"))
		r.wire.once(isVerb("PATCH", "/a"), r.before(func(client *rig) {
			client.delete(configMaps, client.ns, "a")
		}))
		defer r.wire.setFault(nil)
		r.mustComplete()
		if posts := r.wire.sent("POST"); len(posts) != 1 {
			t.Errorf("got POSTs %q, want one: the apply must not have created it", posts)
		}
	})
	t.Run("another client deletes and creates between the list and the apply", func(t *testing.T) {
		r.use("1.0.3", configMap("a", "x: four"))
		r.wire.once(isVerb("PATCH", "/a"), r.before(func(client *rig) {
			client.delete(configMaps, client.ns, "a")
			client.create(configMaps, client.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"theirs"}}`)
		}))
		defer r.wire.setFault(nil)
		r.mustComplete()
		if deletes := r.wire.sent("DELETE"); len(deletes) != 0 {
			t.Errorf("got %q: a stale uid is no immutable field", deletes)
		}
	})
	t.Run("another client writes while ownership moves from the POST to the apply", func(t *testing.T) {
		r.use("1.0.3", configMap("c", "x: one", "y: two"))
		r.mustComplete()
		r.use("1.0.4", configMap("c", "x: one"))
		r.wire.once(isVerb("PATCH", "/c"), r.before(func(client *rig) {
			client.patch(configMaps, client.ns, "c", `{"data":{"z":"theirs"}}`)
		}))
		defer r.wire.setFault(nil)
		r.mustComplete()
		obj := r.get(configMaps, r.ns, "c")
		managers := map[string]bool{}
		for _, e := range obj.GetManagedFields() {
			managers[e.Manager] = true
		}
		if data := obj.Object["data"].(map[string]any); len(data) != 2 || data["z"] != "theirs" || !managers["somebody"] {
			t.Errorf("got %v of %v, want y gone and z still theirs", data, managers)
		}
	})
	t.Run("an object that is there already is taken over", func(t *testing.T) {
		r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"theirs","y":"kept"}}`)
		r.use("1.0.4", configMap("a", "x: four"), configMap("b", "x: ours"))
		r.mustComplete()
		obj := r.get(configMaps, r.ns, "b")
		data := obj.Object["data"].(map[string]any)
		if data["x"] != "ours" || data["y"] != "kept" || obj.GetAnnotations()["lockstep.dev/content-epoch"] != strconv.FormatInt(r.epoch, 10) {
			t.Errorf("got %v %v, want x ours, y kept, stamped", data, obj.GetAnnotations())
		}
	})
	t.Run("a writer who changes it back each time is noticed", func(t *testing.T) {
		r.use("1.0.5", configMap("a", "x: ours"), configMap("b", "x: ours"))
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if isVerb("PATCH", "/a")(req) {
				err = errors.Join(err, r.meanwhile(func(client *rig) {
					client.patch(configMaps, client.ns, "a", `{"data":{"x":"theirs"}}`)
				}))
			}
			return resp, err
		})
		defer r.wire.setFault(nil)
		out, err := r.pass()
		if err != nil || out.Complete || !strings.Contains(r.report().LastError, "another writer") {
			t.Errorf("got %+v, %v, %q, want an incomplete pass that says why", out, err, r.report().LastError)
		}
	})
}

func TestEndOfPass(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))

	t.Run("a lease that is over: nothing is sent", func(t *testing.T) {
		_, err := r.reconciler.Reconcile(t.Context(), protocol.Work{Content: r.content}, func() time.Time { return time.Now() }, time.Time{})
		if !errors.Is(err, reconcile.ErrLeaseOver) || len(r.wire.sent()) != 0 {
			t.Errorf("got %v and requests %q, want ErrLeaseOver and none", err, r.wire.sent())
		}
	})
	t.Run("a lease that ends in the middle: no write after it", func(t *testing.T) {
		r.wire.reset()
		var over atomic.Bool
		r.wire.once(isVerb("POST", "/configmaps"), func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			over.Store(true) // after the mark was created
			return resp, err
		})
		defer r.wire.setFault(nil)
		_, err := r.reconciler.Reconcile(t.Context(), protocol.Work{Content: r.content}, func() time.Time {
			if over.Load() {
				return time.Now()
			}
			return time.Now().Add(time.Hour)
		}, time.Time{})
		if !errors.Is(err, reconcile.ErrLeaseOver) || len(r.wire.writes()) != 1 {
			t.Errorf("got %v and writes %q, want ErrLeaseOver and the mark alone", err, r.wire.writes())
		}
		if got := r.report().LastError; got == "" {
			t.Error("the report does not say why the pass ended")
		}
	})
	t.Run("requests do not outlive the lease, at the server neither", func(t *testing.T) {
		var longest atomic.Int64
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			d, err := time.ParseDuration(req.URL.Query().Get("timeout"))
			if err != nil {
				t.Errorf("%s: %v", req.URL, err)
			}
			longest.Store(max(longest.Load(), int64(d)))
			return next.RoundTrip(req)
		})
		defer r.wire.setFault(nil)
		r.mustComplete()
		if got := time.Duration(longest.Load()); got > 5*time.Second || got < 4*time.Second {
			t.Errorf("got a timeout of %s, want just below 5 s", got)
		}
		longest.Store(0)
		lease := func() time.Time { return time.Now().Add(3 * time.Second) } // it is renewed
		if _, err := r.reconciler.Reconcile(t.Context(), protocol.Work{Content: r.content}, lease, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(longest.Load()); got > 3*time.Second {
			t.Errorf("got a timeout of %s with a lease of 3 s", got)
		}
	})
	t.Run("the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.reconciler.Reconcile(ctx, protocol.Work{Content: r.content}, longLease, time.Time{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
	t.Run("the bundle is another by now", func(t *testing.T) {
		old := r.content
		r.use("1.0.0", configMap("c", "x: one"))
		_, err := r.work(protocol.Work{Content: old})
		var changed *reconcile.BundleChangedError
		if !errors.As(err, &changed) || changed.Want != old.Digest || changed.Have != r.content.Digest || len(r.wire.sent()) != 0 {
			t.Errorf("got %v, want a BundleChangedError and no request", err)
		}
	})
}

// A pass that may not go on writes nothing, and says why.
func TestEndOfPass_refused(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))

	t.Run("the API is unreachable", func(t *testing.T) {
		r.wire.setFault(func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errors.New("gone") })
		defer r.wire.setFault(nil)
		_, err := r.pass()
		if _, ok := errors.AsType[*reconcile.UnreachableError](err); !ok {
			t.Errorf("got %v, want an UnreachableError", err)
		}
	})
	t.Run("the mark may not be read: nothing is written, and it says what it may be", func(t *testing.T) {
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			return answer(http.StatusForbidden, "Forbidden", "no"), nil
		})
		defer r.wire.setFault(nil)
		_, err := r.pass()
		if !errors.Is(err, reconcile.ErrForbidden) || !strings.Contains(err.Error(), "just started") || len(r.wire.writes()) != 0 {
			t.Errorf("got %v, %q, want ErrForbidden with a hint and no writes", err, r.wire.writes())
		}
	})
	t.Run("objects have a higher content epoch: nothing is written", func(t *testing.T) {
		r.epoch = 9
		r.use("1.0.9", configMap("a", "x: nine"), configMap("b", "x: one"))
		r.mustComplete()
		stale := protocol.Work{Content: r.content, Removals: true}
		stale.Content.Epoch = 3
		r.cfg.Bundle.Set(r.cfg.Bundle.Get())
		out, err := r.work(stale)
		if err != nil || out.Complete || out.HighestEpoch != r.epoch || len(r.wire.writes()) != 0 {
			t.Errorf("got %+v, %v, writes %q, want highest epoch %d and no writes", out, err, r.wire.writes(), r.epoch)
		}
	})
}

func TestNamespaceMissing(t *testing.T) {
	r := newRig(t)
	r.parentNS = "missing"
	r.cfg.Bundle = event.New[*bundle.Bundle](nil)
	r.restart()
	r.use("1.0.0", configMap("a", "x: one"))
	out, err := r.pass()
	if err == nil || out.Complete {
		t.Fatalf("got %+v, want an error: there is nowhere to put the mark", out)
	}
	r.wantGone(configMaps, r.ns, "a")
}

// A user without rights, as the apiserver itself sees it.
func TestForbidden(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.cfg.RESTConfig.Impersonate.UserName = "nobody"
	r.restart()
	_, err := r.pass()
	if !errors.Is(err, reconcile.ErrForbidden) {
		t.Errorf("got %v, want ErrForbidden", err)
	}
	if mark, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Time{}); !errors.Is(err, reconcile.ErrForbidden) {
		t.Errorf("got %+v, %v, want ErrForbidden", mark, err)
	}
}
