package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// view contains the fields of /status that the cases need.
type view struct {
	Node struct {
		ID                 string
		RegisteredRevision int64
	}
	Ready struct {
		Ready   bool
		Message string
		Since   time.Time
	}
	Etcd       struct{ LastContact time.Time }
	Reconciler struct {
		State, Leader string
		ModRevision   int64
	}
	Cluster           struct{ State string }
	KubernetesService struct{ Reason string }
	Services          []serviceView
	Election          struct {
		State string
		Since time.Time // to the millisecond, rounded down
		Step  struct{ Kind string }
	}
	Reconcile struct {
		Running bool
		Objects struct{ Desired, Applied, Unchanged int }
	}
}

func (v view) leads() bool { return v.Election.State == "leading" }

// began returns when the state of the election began, by the sidecar's own clock; never early.
// While a sidecar starts, and others follow it, a status takes milliseconds to arrive here.
func (v view) began() time.Time { return v.Election.Since.Add(time.Millisecond) }

// published reports whether the Service kubernetes is as this node would write it.
func (v view) published() bool { return v.KubernetesService.Reason == string(publish.Published) }

// waits reports whether the sidecar is ready and campaigns.
func (v view) waits() bool { return v.Ready.Ready && v.campaigns() }

// campaigns reports whether the sidecar is a candidate, ready or not.
func (v view) campaigns() bool { return v.Election.State == "campaigning" }

// holds reports whether the sidecar leads, and has nothing to do.
func (v view) holds() bool {
	return v.leads() && v.Election.Step.Kind == "Hold" && !v.Reconcile.Running
}

// settled reports whether the sidecar leads, finished a pass, and wrote DONE.
func (v view) settled() bool {
	return v.holds() && v.Reconciler.State == "DONE" && v.Reconciler.Leader == v.Node.ID
}

// observer follows /status?watch of a sidecar, and records when a condition was
// first met. The time is never early, and about a millisecond late.
type observer struct {
	cancel context.CancelFunc
	sightings[view]
}

// sightings keeps the last value received, and when conditions were first met.
type sightings[T any] struct {
	mu   sync.Mutex // mu guards the fields below
	last T
	at   time.Time // when last was received; zero: nothing yet
	open []condition[T]
}

// condition is one that was not met yet.
type condition[T any] struct {
	ok   func(T) bool
	seen chan time.Time // buffered: it gets one time
}

// when returns a channel that gets the time at which ok was first met; the time of
// the last change if it is met already.
func (s *sightings[T]) when(ok func(T) bool) <-chan time.Time {
	w := condition[T]{ok: ok, seen: make(chan time.Time, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && ok(s.last) {
		w.seen <- s.at
		return w.seen
	}
	s.open = append(s.open, w)
	return w.seen
}

// latest returns the newest one.
func (s *sightings[T]) latest() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// record stores a value that was received, and reports to the conditions that it meets.
func (s *sightings[T]) record(v T, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.at = v, at
	var left []condition[T]
	for _, w := range s.open {
		if w.ok(v) {
			w.seen <- at
			continue
		}
		left = append(left, w)
	}
	s.open = left
}

// redial is the pause between attempts to connect to a sidecar that does not listen
// yet.
const redial = time.Millisecond

// observe returns the observer of the sidecar that listens, or will listen, at url.
// Its goroutine ends with the sidecar's answer, or with close.
func observe(ctx context.Context, url string) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel}
	go o.run(ctx, url)
	return o
}

func (o *observer) close() { o.cancel() }

func (o *observer) run(ctx context.Context, url string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status?watch", nil)
		if err != nil {
			panic(fmt.Sprintf("the URL of a sidecar: %v", err))
		}
		resp, err := client.Do(req)
		if err != nil {
			pause(ctx, redial)
			continue
		}
		o.readAll(resp.Body)
		return
	}
}

// readAll reads a stream of events until it ends, and closes it.
func (o *observer) readAll(stream io.ReadCloser) {
	defer stream.Close() // it was only read
	for lines := bufio.NewReaderSize(stream, 64<<10); ; {
		line, err := lines.ReadString('\n')
		at := time.Now()
		if err != nil {
			return // the sidecar has ended, or close was called
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		var v view
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			panic(fmt.Sprintf("/status?watch: %v", err))
		}
		o.record(v, at)
	}
}

// patience bounds every wait of a case. Only something broken takes longer.
const patience = 100 * time.Second

var errPatience = errors.New("it did not happen")

// await returns the next value of a channel.
func await[T any](ctx context.Context, what string, c <-chan T) (T, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	var none T
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case <-late.C:
		return none, fmt.Errorf("waited %s for %s: %w", patience, what, errPatience)
	case got := <-c:
		return got, nil
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
