package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A sidecar that exits because another one uses its node ID cannot show that: its API ends with
// it. So it leaves a notice in etcd, and the other one warns of it. No rule of the protocol
// depends on a notice (docs/protocol-nodes.md#duplicate-ids).

const (
	// noticeTTL is how long a notice lives: longer than the pause between two starts of a
	// sidecar that its unit starts again and again.
	noticeTTL = 10 * time.Minute
	// noticeTimeout bounds the write: the exit goes on without it.
	noticeTimeout = 2 * time.Second
)

// Rival is another sidecar with this node's ID that exited. The zero Rival: none is known.
type Rival struct {
	Where string    // it ran
	At    time.Time // it exited
}

// String describes it for people, with the remedy.
func (r Rival) String() string {
	return fmt.Sprintf("another sidecar with the same node ID ran %s, and has exited; give each sidecar its own --node-id", r.Where)
}

// Rival follows the notice of the last other sidecar with this node's ID.
func (p *Presence) Rival() *event.Value[Rival] { return p.rival }

// leaveNotice makes the sidecar that keeps the node ID warn of this one.
func (p *Presence) leaveNotice(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	value := encodePresence(protocol.Presence{
		Instance: p.cfg.Instance, MachineID: p.cfg.MachineID, Host: p.cfg.Host, Address: p.cfg.Address, Reason: protocol.DuplicateNodeID,
	}, time.Now())
	if err := p.cfg.Client.PutFor(ctx, p.noticeKey(), string(value), noticeTTL); err != nil {
		p.cfg.Log.Debug("no notice left for the sidecar that keeps the node ID", "err", err)
	}
}

func (p *Presence) noticeKey() string {
	return keyspace.Under(p.cfg.Client.Prefix()).Duplicate(p.cfg.Node)
}

// followNotice keeps the rival current until ctx ends.
func (p *Presence) followNotice(ctx context.Context) {
	key := p.noticeKey()
	// Follow returns only because its context ended.
	_ = p.cfg.Client.Follow(ctx, key, func(l etcd.Listing) {
		now, value := Rival{}, l.Find(key).Value
		if other := decodePresence(value); other.Instance != "" && other.Instance != p.cfg.Instance {
			now = Rival{Where: p.whereabouts(other), At: verdictSince(value)}
		}
		event.SetIfNew(p.rival, now)
	})
}

// whereabouts says for people where another sidecar with this node's ID runs.
func (p *Presence) whereabouts(other protocol.Presence) string {
	where := "on another machine"
	if other.MachineID == p.cfg.MachineID {
		where = "on this machine"
	}
	if other.Host != "" {
		where += fmt.Sprintf(", host %s", other.Host)
	}
	if other.Address != "" {
		where += ", at " + other.Address
	}
	return where
}
