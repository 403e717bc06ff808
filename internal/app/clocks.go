package app

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// clockPause is the pause between two looks at this machine's clock and at etcd's
	// revision. Neither is a request.
	clockPause = 5 * time.Second
	// clockStep is a change of the clock that is not only an adjustment.
	clockStep = time.Second
	// maxContacts bounds what is remembered of etcd's revision.
	maxContacts = 4
)

// clocks compares this machine's clock with those of other nodes
// (docs/protocol.md#clocks).
type clocks struct {
	own      protocol.NodeID
	contacts []etcd.Contact // the oldest first
	// seen is the newest presence of each node that was compared, by when it was written.
	seen    map[protocol.NodeID]time.Time
	offsets map[protocol.NodeID]time.Duration // how far other clocks are ahead, where they differ
	last    moment                            // of the last observation
	steps   int                               // how often this machine's clock was set
}

// moment is a time by two clocks.
type moment struct {
	wall    time.Time     // which people set
	running time.Duration // since the start, which no user sets
}

func newClocks(own protocol.NodeID) *clocks {
	return &clocks{own: own, seen: map[protocol.NodeID]time.Time{}, offsets: map[protocol.NodeID]time.Duration{}}
}

// watchClocks publishes the warnings of clocks that differ, until ctx ends. When this
// machine's clock has been set, it has the presence written again, so that the other nodes compare it.
func (a *App) watchClocks(ctx context.Context) error {
	c := newClocks(a.id.node)
	began := time.Now()
	for {
		f, fleetChanged := a.follower.Fleet().Load()
		_, cordonChanged := a.registrar.CordonOver().Load()
		now := time.Now()
		state := c.state(f, a.etcd.Contact().Get(), a.registrar.CordonOver().Get(), moment{now.Round(0), now.Sub(began)})
		if !state.equal(a.clocks.Get()) {
			a.clocks.Set(state)
		}
		limited, cancel := context.WithTimeout(ctx, clockPause)
		event.Wait(limited, fleetChanged, cordonChanged)
		cancel()
		if !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// clockState is what is known of the clocks.
type clockState struct {
	warnings []protocol.Warning
	largest  time.Duration // of the differences
	steps    int           // how often this machine's clock was set
}

func (s clockState) equal(o clockState) bool {
	return s.largest == o.largest && s.steps == o.steps && slices.Equal(s.warnings, o.warnings)
}

// state returns what is known after an observation.
func (c *clocks) state(f protocol.Fleet, contact etcd.Contact, over fleet.CordonOver, now moment) clockState {
	c.observe(f, contact, now)
	out := clockState{warnings: protocol.ClockWarnings(c.own, c.offsets, f), steps: c.steps}
	if !over.Read.IsZero() && now.wall.Sub(over.Read) < overMemory {
		out.warnings = append(out.warnings, protocol.CordonOverWhenRead(over.Cordon, over.Read))
	}
	for _, offset := range c.offsets {
		out.largest = max(out.largest, offset.Abs())
	}
	return out
}

// observe compares what is new in the fleet. If this machine's clock was set since the last
// observation, what was known before counts no more.
func (c *clocks) observe(f protocol.Fleet, contact etcd.Contact, now moment) {
	step := now.wall.Sub(c.last.wall) - (now.running - c.last.running)
	if c.last != (moment{}) && step.Abs() >= clockStep {
		c.steps++
		c.contacts = nil
		clear(c.offsets)
	}
	c.last = now
	alive := map[protocol.NodeID]bool{}
	for _, r := range f.Records {
		if !r.Alive || r.ID == c.own {
			continue
		}
		alive[r.ID] = true
		if p := r.Presence; !p.Written.Equal(c.seen[r.ID]) {
			c.seen[r.ID] = p.Written
			c.compare(r.ID, protocol.ClockFacts{Written: p.Written, NotBefore: c.before(p.Revision), Seen: now.wall})
		}
	}
	for id := range c.seen {
		if !alive[id] {
			delete(c.seen, id)
			delete(c.offsets, id)
		}
	}
	c.remember(contact)
}

func (c *clocks) compare(id protocol.NodeID, facts protocol.ClockFacts) {
	offset, certain := protocol.ClockOffset(facts)
	if certain {
		c.offsets[id] = offset
	} else {
		delete(c.offsets, id)
	}
}

// remember remembers the revision of etcd, if it is not known since a moment ago.
func (c *clocks) remember(contact etcd.Contact) {
	if !contact.Connected || len(c.contacts) > 0 && contact.Last.Sub(c.contacts[len(c.contacts)-1].Last) < clockPause {
		return
	}
	c.contacts = append(c.contacts, contact)
	c.contacts = c.contacts[max(0, len(c.contacts)-maxContacts):]
}

// before returns the last time at which etcd had not reached a revision; zero: unknown.
func (c *clocks) before(revision int64) time.Time {
	for _, contact := range slices.Backward(c.contacts) {
		if contact.Revision < revision {
			return contact.Last.Round(0)
		}
	}
	return time.Time{}
}

// overMemory is how long a cordon is shown that was over when it was read.
const overMemory = 10 * time.Minute
