package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/protocol"
)

// While no client changes anything, nothing but watches is asked for, in ten minutes
// of a clock that leaps; and the watches have not fallen asleep.
func TestKeep_quiet(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"), clusterRole)
	_, _ = r.keep().stop() // the list that begins the parent's watch was made
	touched := r.get(configMaps, r.ns, "a")
	next, err := strconv.Atoi(touched.GetResourceVersion())
	if err != nil {
		t.Fatal(err)
	}
	touched.SetResourceVersion(strconv.Itoa(next + 1000))
	touched.SetManagedFields(nil)
	delete(touched.Object, "data") // a watch brings the metadata alone

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		touch := make(chan *unstructured.Unstructured)
		r.wire.setFault(func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			if !isWatch(req) {
				return nil, errors.New("not asked for")
			}
			return calmWatch(t, req, touch), nil
		})
		r.wire.reset()
		ended := make(chan error, 1) // the end waits until it is read
		began := time.Now()
		go func() {
			_, err := r.reconciler.Keep(ctx, protocol.Work{Content: r.content, LeaderEpoch: 7}, func() time.Time { return began.Add(time.Hour) })
			ended <- err
		}()
		synctest.Wait()
		if !r.report().Drift.Watching {
			t.Errorf("got %+v, want all watched", r.report().Drift)
		}
		kinds := 1 + 1 + fenceObjects + 1 // ConfigMaps, ClusterRoles, the fence, the parent
		if got := r.wire.sent("WATCH"); len(got) != kinds {
			t.Errorf("got %q, want a watch of each kind and of the parent", got)
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(10 * time.Minute):
		}
		wantRequests(t, r.wire.unwatched())
		if got := r.wire.sent("WATCH"); len(got) > 3*kinds {
			t.Errorf("got %d watches, want each opened again only when the server ends it", len(got))
		}
		touch <- touched
		synctest.Wait()
		wantRequests(t, slices.Compact(r.wire.unwatched()), "PATCH /api/v1/namespaces/"+r.ns+"/configmaps/a")
		cancel()
		if err := <-ended; err == nil {
			t.Error("it ended without a reason")
		}
	})
}

// calmWatch answers a watch as a server does that has nothing to tell: a bookmark
// each minute, and a graceful end after the time that was asked for. The
// one of all ConfigMaps also brings what touch sends.
func calmWatch(t *testing.T, req *http.Request, touch <-chan *unstructured.Unstructured) *http.Response {
	t.Helper()
	seconds, err := strconv.Atoi(req.URL.Query().Get("timeoutSeconds"))
	if err != nil || req.URL.Query().Get("allowWatchBookmarks") != "true" {
		t.Errorf("got watch %s, want it to have an end and bookmarks", req.URL)
	}
	if !strings.HasSuffix(req.URL.Path, "/api/v1/configmaps") {
		touch = nil
	}
	version := req.URL.Query().Get("resourceVersion")
	stream, events := io.Pipe()
	go func() {
		end := time.After(time.Duration(seconds) * time.Second)
		for {
			line := fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"X","metadata":{"resourceVersion":%q}}}`, version)
			select {
			case <-req.Context().Done():
				_ = events.CloseWithError(req.Context().Err())
				return
			case <-end:
				_ = events.Close()
				return
			case obj := <-touch:
				object, err := json.Marshal(obj)
				if err != nil {
					t.Error(err)
				}
				line = fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, object)
			case <-time.After(time.Minute):
			}
			if _, err := io.WriteString(events, line+"\n"); err != nil {
				return
			}
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: stream}
}
