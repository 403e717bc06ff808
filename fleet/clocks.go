package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

const (
	// clockPause is the pause between two readings of this machine's clock and of etcd's last known
	// revision. Neither sends a request.
	clockPause = 5 * time.Second
	// compareRest is the shortest time between two comparisons: each changed result writes the presence,
	// which all sidecars read.
	compareRest = 500 * time.Millisecond
	// clockStep is the smallest change of the clock that counts as a step, not as an adjustment.
	clockStep = time.Second
	// maxContacts bounds the number of kept contacts, which show when etcd reached a revision.
	maxContacts = 4
)

// moment is one time on two clocks.
type moment struct {
	wall    time.Time     // the clock that users can set
	running time.Duration // time since the start, which users cannot set
}

// ClocksConfig configures a Clocks. All fields are required.
type ClocksConfig struct {
	Own        protocol.NodeID
	Fleet      *event.Value[protocol.Fleet]
	Contact    *event.Value[etcd.Contact]
	CordonOver *event.Value[CordonOver]
}

// Clocks follows how far the clocks of other nodes differ from this machine's (docs/protocol-nodes.md#clocks).
type Clocks struct {
	cfg   ClocksConfig
	state *event.Value[ClockState]
	began time.Time // with it begins moment.running, also if Run is started again after a panic

	// Only Run uses the fields below.
	contacts []etcd.Contact // the oldest first
	// seen is when the newest compared presence of each node was written.
	seen    map[protocol.NodeID]time.Time
	offsets map[protocol.NodeID]time.Duration // how far other clocks are ahead, where they differ
	last    moment                            // of the last observation
	steps   int                               // how often this machine's clock was set
}

// NewClocks returns a Clocks that compares nothing before Run.
func NewClocks(cfg ClocksConfig) *Clocks {
	return &Clocks{
		cfg: cfg, state: event.New(ClockState{}), began: time.Now(),
		seen: map[protocol.NodeID]time.Time{}, offsets: map[protocol.NodeID]time.Duration{},
	}
}

// State follows the result of the comparisons.
func (c *Clocks) State() *event.Value[ClockState] { return c.state }

// Run compares the clocks until ctx ends. When this machine's clock was set, it changes
// ClockState.Steps: that makes the sidecar write the presence again, so that other nodes compare the
// clock.
func (c *Clocks) Run(ctx context.Context) error {
	for {
		f, fleetChanged := c.cfg.Fleet.Load()
		over, cordonChanged := c.cfg.CordonOver.Load()
		now := time.Now()
		state := c.next(f, c.cfg.Contact.Get(), over, moment{now.Round(0), now.Sub(c.began)})
		if !state.equal(c.state.Get()) {
			c.state.Set(state)
		}
		event.WaitFor(ctx, clockPause, fleetChanged, cordonChanged)
		if !backoff.Sleep(ctx, compareRest) {
			return ctx.Err()
		}
	}
}

// ClockState is the result of the comparisons.
type ClockState struct {
	Warnings []protocol.Warning
	Largest  time.Duration // of the differences
	Steps    int           // how often this machine's clock was set
}

func (s ClockState) equal(o ClockState) bool {
	return s.Largest == o.Largest && s.Steps == o.Steps && slices.Equal(s.Warnings, o.Warnings)
}

// next returns the result after an observation.
func (c *Clocks) next(f protocol.Fleet, contact etcd.Contact, over CordonOver, now moment) ClockState {
	c.observe(f, contact, now)
	out := ClockState{Warnings: noderecord.ClockWarnings(c.cfg.Own, c.offsets, f), Steps: c.steps}
	if !over.Read.IsZero() && now.wall.Sub(over.Read) < overMemory {
		out.Warnings = append(out.Warnings, noderecord.CordonOverWhenRead(over.Cordon, over.Read))
	}
	for _, offset := range c.offsets {
		out.Largest = max(out.Largest, offset.Abs())
	}
	return out
}

// observe compares the new presences in the fleet. If this machine's clock was set since the last
// observation, it drops all earlier results.
func (c *Clocks) observe(f protocol.Fleet, contact etcd.Contact, now moment) {
	step := now.wall.Sub(c.last.wall) - (now.running - c.last.running)
	if c.last != (moment{}) && step.Abs() >= clockStep {
		c.steps++
		c.contacts = nil
		clear(c.offsets)
	}
	c.last = now
	alive := 0 // of the nodes in seen
	for _, r := range f.Records {
		if !r.Alive || r.ID == c.cfg.Own {
			continue
		}
		p := &r.Presence
		was, known := c.seen[r.ID]
		if !p.Written.Equal(was) {
			c.seen[r.ID], known = p.Written, true
			c.compare(r.ID, noderecord.ClockFacts{Written: p.Written, NotBefore: c.before(p.Revision), Seen: now.wall})
		}
		if known {
			alive++
		}
	}
	if len(c.seen) > alive {
		c.forgetAbsent(f)
	}
	c.remember(contact)
}

// forgetAbsent drops what is known of nodes that are not alive.
func (c *Clocks) forgetAbsent(f protocol.Fleet) {
	for id := range c.seen {
		if r, _ := f.Record(id); !r.Alive {
			delete(c.seen, id)
			delete(c.offsets, id)
		}
	}
}

func (c *Clocks) compare(id protocol.NodeID, facts noderecord.ClockFacts) {
	offset, certain := noderecord.ClockOffset(facts)
	if certain {
		c.offsets[id] = offset
	} else {
		delete(c.offsets, id)
	}
}

// remember keeps a contact with etcd, at most one per clockPause.
func (c *Clocks) remember(contact etcd.Contact) {
	if !contact.Connected || len(c.contacts) > 0 && contact.Last.Sub(c.contacts[len(c.contacts)-1].Last) < clockPause {
		return
	}
	c.contacts = append(c.contacts, contact)
	c.contacts = c.contacts[max(0, len(c.contacts)-maxContacts):]
}

// before returns the last known time at which etcd's revision was still lower than revision; zero:
// unknown.
func (c *Clocks) before(revision int64) time.Time {
	for _, contact := range slices.Backward(c.contacts) {
		if contact.Revision < revision {
			return contact.Last.Round(0)
		}
	}
	return time.Time{}
}

// overMemory is how long the sidecar warns of a cordon that was over when it read it.
const overMemory = 10 * time.Minute
