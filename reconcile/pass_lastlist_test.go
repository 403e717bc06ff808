package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// passUntil makes a pass of which requests of others may land until quiet.
func (r *rig) passUntil(quiet time.Time, w protocol.Work) protocol.Outcome {
	r.t.Helper()
	w.Content, w.LeaderEpoch = r.content, 7
	r.wire.reset()
	out, err := r.reconciler.Reconcile(r.t.Context(), w, longLease, quiet)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// lateWrite makes a pass that waits, during which another client writes after a list.
// It reports whether that list was begun before all was quiet.
func (r *rig) lateWrite(wait time.Duration) bool {
	r.t.Helper()
	r.use("1.0.1", configMap("a", "x: two"+wait.String()))
	quiet := time.Now().Add(wait)
	var written atomic.Bool
	var last atomic.Pointer[time.Time]
	r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if !isVerb(http.MethodGet, "/api/v1/configmaps")(req) {
			return next.RoundTrip(req)
		}
		now := time.Now()
		last.Store(&now)
		resp, err := next.RoundTrip(req)
		if now.Before(quiet) && written.CompareAndSwap(false, true) { // after the last list of a pass that does not wait
			err = errors.Join(err, r.meanwhile(func(client *rig) {
				client.patch(configMaps, client.ns, "a", `{"data":{"x":"late"}}`)
			}))
		}
		return resp, err
	})
	defer r.wire.setFault(nil)
	if out := r.passUntil(quiet, protocol.Work{Wait: true}); !out.Complete {
		r.t.Errorf("got %+v, want it complete", out)
	}
	if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "two"+wait.String() {
		r.t.Errorf("got x = %v after the pass, want two%s", got, wait)
	}
	if at := last.Load(); at == nil || at.Before(quiet) {
		r.t.Errorf("the last list was begun before %v: at %v", quiet, at)
	}
	return written.Load()
}

// A change of content is over only when a list finds everything in place that
// was begun when nothing of others could land any more (DoneIsDone).
func TestLastListComesWhenAllIsQuiet(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()

	// How long a pass takes to its first list is the machine's affair.
	for wait := time.Second; !r.lateWrite(wait); wait *= 2 {
		if wait > time.Minute {
			t.Fatalf("a pass got to no list in %s", wait)
		}
	}

	t.Run("content that is there already is not waited for", func(t *testing.T) {
		if out := r.passUntil(time.Now().Add(time.Hour), protocol.Work{}); !out.Complete {
			t.Errorf("got %+v, want it complete", out)
		}
	})
}

// A mark that has to be rebuilt is rebuilt from the status, and where there is
// none from the stamps, once no late request can bring another.
func TestMarkRebuilt(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("same", "x: one"), configMap("a", "x: one"))
	r.mustComplete()
	r.useHeader("release: 1.2.0\nminApiserverRelease: 1.1.0", configMap("same", "x: one"), configMap("a", "x: two"))
	r.mustComplete()
	r.delete(configMaps, r.ns, "set")

	beside := protocol.Content{Release: r.content.Release, Epoch: r.content.Epoch}
	beside.Constraints.MinAPIServer = r.content.Constraints.MinAPIServer
	far := time.Now().Add(time.Hour)
	t.Run("beside a status", func(t *testing.T) {
		mark, err := r.reconciler.Survey(t.Context(), protocol.Work{FallbackEntry: beside}, far)
		if err != nil || !mark.FirstDone || len(mark.Entries) != 1 || mark.Entries[0] != beside {
			t.Errorf("got %+v, %v, want %v alone: an old stamp on an object that never changed says nothing", mark, err, beside)
		}
	})
	t.Run("without one, when all is quiet", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		var lists atomic.Int32
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if isVerb(http.MethodGet, "/api/v1/configmaps")(req) && lists.Add(1) == 2 {
				cancel(enough) // it lists again, and again
			}
			return next.RoundTrip(req)
		})
		if mark, err := r.reconciler.Survey(ctx, protocol.Work{}, far); err == nil {
			t.Errorf("got %+v while requests may land", mark)
		}
		r.wire.setFault(nil)
		mark, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Now())
		if err != nil || len(mark.Entries) != 2 {
			t.Errorf("got %+v, %v, want both releases", mark, err)
		}
	})
	t.Run("a pass writes it", func(t *testing.T) {
		r.use("1.3.0", configMap("same", "x: one"), configMap("a", "x: three"), "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n")
		_ = r.passUntil(time.Time{}, protocol.Work{FallbackEntry: beside})
		mark := r.survey()
		if !mark.FirstDone || len(mark.Entries) != 2 || mark.Entries[0] != beside || mark.Entries[1] != r.content {
			t.Errorf("got %+v, want %v and %v", mark, beside, r.content)
		}
	})
}

// A pass that has to end lets the write that is under way end first, so that its
// outcome is known; if that takes too long, it reports that it is not.
func TestPassEndsWithKnownOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		release bool // the held request is answered
	}{{"the answer comes", true}, {"the answer does not come", false}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", configMap("a", "x: one"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var posts atomic.Int64
			r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if !isVerb(http.MethodPost, "/configmaps")(req) {
					return next.RoundTrip(req)
				}
				if posts.Add(1) == 1 { // the mark
					return next.RoundTrip(req)
				}
				if !tt.release {
					cancel()
					<-req.Context().Done()
					return next.RoundTrip(req)
				}
				resp, err := next.RoundTrip(req)
				cancel() // what is left of the answer comes soon
				return resp, err
			})
			defer r.wire.setFault(nil)
			out, err := r.reconciler.Reconcile(ctx, protocol.Work{Content: r.content, First: true}, longLease, time.Time{})
			if err == nil || !out.Unsure.IsZero() == tt.release {
				t.Errorf("got %+v, %v, want an error and unsure %t", out, err, !tt.release)
			}
		})
	}
}
