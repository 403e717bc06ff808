package reconcile_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// queue counts the requests that are under way at once, and lets none of the first
// ones go until as many as expected have come.
type queue struct {
	expected int
	full     chan struct{} // closed when they have

	mu       sync.Mutex // mu guards what follows
	underWay map[*http.Request]bool
	most     int
}

func (c *queue) transport(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !isVerb(http.MethodPost, "/configmaps")(req) {
		return next.RoundTrip(req)
	}
	c.come(req)
	defer c.leave(req)
	select {
	case <-c.full:
	case <-req.Context().Done():
	}
	return next.RoundTrip(req)
}

func (c *queue) come(req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay[req] = true
	now := 0
	for r := range c.underWay {
		if r.Context().Err() == nil { // else it was given up, and may be sent again already
			now++
		}
	}
	c.most = max(c.most, now)
	if now == c.expected {
		select {
		case <-c.full:
		default:
			close(c.full)
		}
	}
}

func (c *queue) leave(req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underWay, req)
}

// peak returns how many requests were under way at once.
func (c *queue) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// Within a wave as many requests are under way as are allowed, and no more.
func TestWaveIsConcurrent(t *testing.T) {
	r := newRig(t)
	r.cfg.Concurrency = 5
	r.restart()
	r.use("1.0.0", configMap("first", "x: one"))
	r.mustComplete() // makes the parent, which is a ConfigMap, too
	var many []string
	for i := range 40 {
		many = append(many, configMap(fmt.Sprintf("m-%d", i), "x: one"))
	}
	r.use("1.0.1", many...)
	c := &queue{expected: 5, full: make(chan struct{}), underWay: map[*http.Request]bool{}}
	r.wire.setFault(c.transport)
	defer r.wire.setFault(nil)
	r.mustComplete()
	if got := c.peak(); got != 5 {
		t.Errorf("got %d requests at once, want 5", got)
	}
}
