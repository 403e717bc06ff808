package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// world has a leader's Events, the journal that they show, and an API that keeps what it gets. A test with a real
// kube-apiserver has the rest: test/e2e.
type world struct {
	*testing.T
	cfg   Config
	leads *event.Value[bool]

	mu       sync.Mutex // mu guards what follows: two leaders may use it
	entries  []history.Entry
	reads    int
	objects  map[string]object // by name
	requests []string
	code     int  // of all answers; 0: it works
	hangs    bool // until the request is given up
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, leads: event.New(true), objects: map[string]object{}}
	w.cfg = Config{
		API: w, Node: "cp-1", Leads: w.leads.Load, Fleet: event.New(protocol.Fleet{}), Own: event.New(0), Log: slog.New(slog.DiscardHandler),
		Read: func(context.Context) []history.Entry {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reads++
			return slices.Clone(w.entries)
		},
	}
	return w
}

// Do implements API.
func (w *world) Do(ctx context.Context, r kube.Request) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := path.Base(r.Path)
	w.requests = append(w.requests, r.Verb+" "+r.Path)
	if w.hangs {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, ctx.Err()
	}
	code := w.code
	var o object
	if err := json.Unmarshal(r.Body, &o); err != nil {
		w.Error(err)
	}
	was, exists := w.objects[name]
	switch {
	case code != 0:
	case strings.Contains(o.Note, "invalid"):
		code = http.StatusUnprocessableEntity
	case r.Verb == http.MethodPost && w.objects[o.Metadata.Name].Kind != "":
		code = http.StatusConflict
	case r.Verb == http.MethodPost:
		w.objects[o.Metadata.Name] = o
		return nil, nil
	case !exists:
		code = http.StatusNotFound
	default:
		was.Series = o.Series
		w.objects[name] = was
		return nil, nil
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Message: http.StatusText(code)}}
}

// happens makes an entry the newest version of itself.
func (w *world) happens(e history.Entry) {
	w.mu.Lock()
	if i := slices.IndexFunc(w.entries, func(was history.Entry) bool { return was.ID == e.ID }); i >= 0 {
		w.entries[i] = e
	} else {
		w.entries = append(w.entries, e)
	}
	w.mu.Unlock()
	w.cfg.Own.Set(w.cfg.Own.Get() + 1)
}

// run starts Events until the end of the bubble.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := New(w.cfg).Run(ctx); !errors.Is(err, context.Canceled) {
			w.Errorf("it ended with %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// pass lets the time of the bubble pass, until nothing runs. What the test did to the world before happened before what
// the leaders do to it then, also for the race detector.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // it is a barrier
	<-time.After(d)
	synctest.Wait()
}

func closing(id string, count int) history.Entry {
	return history.Entry{
		ID: id, Time: time.Now(), Kind: history.Gate, Node: "cp-2", Reason: protocol.NotRegistered, Message: "its lease has ended", Count: count,
	}
}

// 100 flaps are one Event with a series, in a few requests; and while nothing happens, nothing is read and sent.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run()
		defer stop()
		flap := closing("gate/cp-2/1", 0)
		for range 100 {
			w.pass(200 * time.Millisecond)
			flap.Count++
			flap.Until = time.Now()
			w.happens(flap)
		}
		w.pass(3 * settle)
		if len(w.objects) != 1 || len(w.requests) > 6 {
			t.Errorf("got %d Events by %d requests: %v", len(w.objects), len(w.requests), w.requests)
		}
		for name, o := range w.objects {
			if o.Series == nil || o.Series.Count != 100 || o.Series.LastObservedTime != microTime(flap.Until) || o.Metadata.Name != name {
				t.Errorf("got %+v %+v", o, o.Series)
			}
			if got := fmt.Sprint(o.Type, " ", o.Regarding.Kind, " ", o.Regarding.Name, " ", o.Reason, " ", o.Action, " ", o.Metadata.Namespace); got != "Warning Node cp-2 NotRegistered gate default" {
				t.Errorf("got %s", got)
			}
		}
		requests, reads := len(w.requests), w.reads
		w.pass(24 * time.Hour)
		if len(w.requests) != requests || w.reads != reads {
			t.Errorf("in a quiet day: %d requests, and %d reads", len(w.requests)-requests, w.reads-reads)
		}
	})
}

// The next leader continues the series of the one before it, and shows nothing old.
func TestEvents_nextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := closing("gate/cp-2/1", 1)
		old.Until = old.Time.Add(time.Second)
		w.happens(old)
		w.pass(2 * recent)
		upgrade := history.Entry{ID: "upgrade//2", Time: time.Now(), Kind: history.Upgrade, Reason: history.Begun, Message: "releases 1.0.0 and 1.1.0", Count: 1}
		w.happens(upgrade)
		w.leads.Set(false)
		defer w.run()()
		w.pass(time.Hour - time.Second)
		if w.reads > 0 {
			t.Errorf("a node that does not lead has read %d times", w.reads)
		}
		upgrade.Time = time.Now()
		w.happens(upgrade)
		flap := closing("gate/cp-2/3", 1)
		w.happens(flap)
		w.leads.Set(true)
		w.pass(2 * settle)
		if len(w.objects) != 2 {
			t.Errorf("got %v", w.objects)
		}

		stop := w.run() // of another node, which knows nothing of the first
		w.pass(settle)
		flap.Count, flap.Until = 2, time.Now()
		upgrade.Reason, upgrade.Until = history.Done, time.Now()
		w.happens(flap)
		w.happens(upgrade)
		w.leads.Set(true)
		w.pass(4 * settle)
		stop()
		if len(w.objects) != 3 { // the end of the upgrade has an Event of its own
			t.Errorf("got %v", w.objects)
		}
		if o := w.objects[nameOf(flap)]; o.Series == nil || o.Series.Count != 2 {
			t.Errorf("got %+v", o)
		}
	})
}

// An API that refuses or hangs is asked less and less, and what happened meanwhile is shown if it is recent.
func TestEvents_troubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.code = http.StatusForbidden
		defer w.run()()
		w.happens(closing("gate/cp-2/1", 1))
		w.pass(refusedPause)
		if len(w.requests) != 1 {
			t.Errorf("in an hour without rights: %d requests", len(w.requests))
		}
		w.code = http.StatusServiceUnavailable
		w.pass(settle + time.Second)
		w.happens(closing("gate/cp-2/2", 1))
		before := len(w.requests)
		w.pass(recent)
		if n := len(w.requests) - before; n < 2 || n > 10 {
			t.Errorf("in ten minutes of trouble: %d requests", n)
		}
		w.code = 0
		w.pass(maxPause)
		w.happens(closing("gate/cp-2/3", 1))
		w.pass(maxPause)
		if len(w.objects) != 1 {
			t.Errorf("got %v", w.objects)
		}
		w.objects = map[string]object{} // after an hour
		again := w.entries[len(w.entries)-1]
		again.Count, again.Until = 2, time.Now()
		w.happens(again)
		w.pass(2 * settle)
		if len(w.objects) != 1 {
			t.Errorf("an Event that was deleted: got %v", w.objects)
		}
	})
}

// An Event that the API rejects holds up no other.
func TestEvents_rejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bad := closing("gate/cp-2/1", 1)
		bad.Message = "invalid"
		w.happens(bad)
		w.happens(closing("gate/cp-2/2", 1))
		defer w.run()()
		w.pass(time.Hour)
		if len(w.objects) != 1 || len(w.requests) != 2 {
			t.Errorf("got %d Events by %v", len(w.objects), w.requests)
		}
	})
}

// A round has a bound, and the next one does the rest.
func TestEvents_many(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 3 * maxRound {
			w.happens(closing(fmt.Sprint("gate/cp-2/", i), 1))
		}
		defer w.run()()
		w.pass(settle + time.Millisecond)
		if len(w.requests) != maxRound {
			t.Errorf("got %d requests", len(w.requests))
		}
		w.pass(3 * settle)
		if len(w.objects) != 3*maxRound {
			t.Errorf("got %d Events", len(w.objects))
		}
	})
}

// An API that hangs holds nothing up.
func TestEvents_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hangs = true
		w.happens(closing("gate/cp-2/1", 1))
		stop := w.run()
		w.pass(time.Minute)
		stop()
		if len(w.requests) != 1 || !strings.HasPrefix(w.requests[0], "POST /apis/events.k8s.io/v1/namespaces/default/events") {
			t.Errorf("got %v", w.requests)
		}
	})
}

// Each kind has a type, and what is about no node is about the ConfigMap.
func TestEventOf(t *testing.T) {
	for _, kind := range history.Kinds() {
		o := eventOf(history.Entry{Kind: kind, Time: time.Unix(0, 0), Count: 1}, "cp-1", time.Unix(1, 0))
		if o.Reason == "" || o.Action != string(kind) || o.Type != "Normal" && o.Type != "Warning" || o.Metadata.Namespace != o.Regarding.Namespace || o.Series != nil {
			t.Errorf("%s: got %+v", kind, o)
		}
	}
	open := eventOf(history.Entry{Kind: history.Gate, Reason: protocol.Cordoned, Time: time.Unix(0, 0), Count: 3}, "cp-1", time.Unix(9, 0))
	if failed := eventOf(history.Entry{Kind: history.Turn, Node: "a", Reason: warn.TurnFailed}, "a", time.Time{}); failed.Type != "Warning" {
		t.Errorf("work that failed is %s", failed.Type)
	}
	if open.Type != "Normal" || open.Series.LastObservedTime != "1970-01-01T00:00:09.000000Z" || open.EventTime != "1970-01-01T00:00:00.000000Z" {
		t.Errorf("got %+v %+v", open, open.Series)
	}
}
