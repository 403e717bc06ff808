package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// view is what the cases read of /status.
type view struct {
	Node struct {
		ID                 string
		RegisteredRevision int64
	}
	Ready      struct{ Ready bool }
	Reconciler struct {
		State, Leader string
		ModRevision   int64
	}
	Election struct {
		State string
		Step  struct{ Kind string }
	}
	Reconcile struct {
		Running bool
		Objects struct{ Desired, Applied, Unchanged int }
	}
}

func (v view) leads() bool { return v.Election.State == "leading" }

// waits: ready, and second in the election.
func (v view) waits() bool { return v.Ready.Ready && v.Election.State == "campaigning" }

// settled: it leads, has made a pass, and the status says DONE.
func (v view) settled() bool {
	return v.leads() && v.Election.Step.Kind == "Hold" && !v.Reconcile.Running &&
		v.Reconciler.State == "DONE" && v.Reconciler.Leader == v.Node.ID
}

// eye watches a sidecar through /status?watch and notes when something first
// was so: not before it was, and about a millisecond after.
type eye struct {
	cancel context.CancelFunc

	mu    sync.Mutex // mu guards what follows
	last  view
	at    time.Time // when last came; zero: nothing came yet
	waits []wait
}

type wait struct {
	ok   func(view) bool
	seen chan time.Time // has room for the one time
}

// redial is the pause after an attempt to connect with a sidecar that does not
// listen yet.
const redial = time.Millisecond

// openEye returns an eye on the sidecar that listens, or will listen, at url.
// Its goroutine ends with the sidecar's answer, or with close.
func openEye(ctx context.Context, url string) *eye {
	ctx, cancel := context.WithCancel(ctx)
	e := &eye{cancel: cancel}
	go e.run(ctx, url)
	return e
}

func (e *eye) close() { e.cancel() }

// when returns a channel that gets the time at which ok was first seen to hold,
// or the last change where it holds already.
func (e *eye) when(ok func(view) bool) <-chan time.Time {
	w := wait{ok: ok, seen: make(chan time.Time, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.at.IsZero() && ok(e.last) {
		w.seen <- e.at
		return w.seen
	}
	e.waits = append(e.waits, w)
	return w.seen
}

func (e *eye) now() view {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *eye) run(ctx context.Context, url string) {
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
		e.read(bufio.NewReaderSize(resp.Body, 64<<10))
		_ = resp.Body.Close() // what was only read from has nothing to lose
		return
	}
}

func (e *eye) read(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		at := time.Now()
		if err != nil {
			return // the sidecar has ended, or the eye was closed
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		var v view
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			panic(fmt.Sprintf("/status?watch: %v", err))
		}
		e.see(v, at)
	}
}

func (e *eye) see(v view, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.at = v, at
	var left []wait
	for _, w := range e.waits {
		if w.ok(v) {
			w.seen <- at
			continue
		}
		left = append(left, w)
	}
	e.waits = left
}

// patience is how long a case waits for anything. Only what is broken takes
// longer.
const patience = 100 * time.Second

var errPatience = errors.New("it did not come")

// await returns what comes through a channel.
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
