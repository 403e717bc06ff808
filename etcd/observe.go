package etcd

import (
	"context"
	"time"
)

// Verb is the kind of a request, for metrics.
type Verb string

// The verbs. A request that grants a lease is a Read: it can be repeated.
const (
	Read      Verb = "read"
	Write     Verb = "write"
	KeepAlive Verb = "keepalive"
)

var verbs = map[effect]Verb{reads: Read, writes: Write}

// Outcome is how a request ended, for metrics.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "ok"
	Refused  Outcome = "refused" // etcd answered with an error
	Silent   Outcome = "none"    // there was no answer
)

// Observer gets how each request ended, with all its attempts, and how long it took.
type Observer func(Verb, Outcome, time.Duration)

// Observe makes o get all requests from now on, except watches.
func (c *Client) Observe(o Observer) { c.observer.Store(&o) }

// observe passes on how a request ended. One that its caller gave up shows nothing of etcd.
func (c *Client) observe(ctx context.Context, verb Verb, begin time.Time, err error) {
	o := c.observer.Load()
	if o == nil || ctx.Err() != nil {
		return
	}
	outcome := Answered
	switch {
	case err == nil:
	case isAnswer(err):
		outcome = Refused
	default:
		outcome = Silent
	}
	(*o)(verb, outcome, time.Since(begin))
}

// hold counts a session as held, until release.
func (c *Client) hold(s *Session) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[*Session]bool{}
	}
	c.sessions[s] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, s)
	}
}

// ShortestLease returns how long the lease that ends first, of those that are held, is certain to live.
// There may be none.
func (c *Client) ShortestLease() (left time.Duration, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sessions {
		if until := max(0, time.Until(s.ValidUntil())); !some || until < left {
			left, some = until, true
		}
	}
	return left, some
}
