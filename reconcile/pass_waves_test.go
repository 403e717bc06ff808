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

	mu        sync.Mutex // mu guards what follows
	now, most int
}

func (c *queue) transport(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !isVerb(http.MethodPost, "/configmaps")(req) {
		return next.RoundTrip(req)
	}
	c.come()
	defer c.leave()
	select {
	case <-c.full:
	case <-req.Context().Done():
	}
	return next.RoundTrip(req)
}

func (c *queue) come() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.most = max(c.most, c.now)
	if c.now == c.expected {
		select {
		case <-c.full:
		default:
			close(c.full)
		}
	}
}

func (c *queue) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
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
	c := &queue{expected: 5, full: make(chan struct{})}
	r.wire.setFault(c.transport)
	defer r.wire.setFault(nil)
	r.mustComplete()
	if c.most != 5 {
		t.Errorf("got %d requests at once, want 5", c.most)
	}
}
