package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// ErrNotDefragmented is returned if members do not answer, or their databases are still full.
var ErrNotDefragmented = errors.New("not defragmented")

// Defragmentation is how the members are defragmented.
type Defragmentation struct {
	// Force: leave out members that do not answer.
	Force bool
	// Free returns how many bytes are free on the disk of a member, if that is known here. nil: it is
	// not.
	Free func(View) (free int64, known bool)
	// Progress is called with a sentence for each step that takes its time; nil: it is not
	// reported.
	Progress func(text string)
}

// Defragmented is a member and the size of its database in bytes.
type Defragmented struct {
	View          // as it was before
	After   int64 // the size now; the size before, if it was left out
	LeftOut bool  // it did not answer
}

// Defragment makes space in the databases of all members: it drops the old revisions, makes each
// member in turn write its database again, followers first and the leader last, and then ends the alarm of
// a full database. It writes no key, so it works while etcd refuses writes. It begins with the next member
// only when the one before knows a leader again: a majority goes on to serve.
func Defragment(ctx context.Context, client *etcd.Client, d Defragmentation) ([]Defragmented, error) {
	if d.Progress == nil {
		d.Progress = func(string) {}
	}
	all, err := ListKnown(ctx, client)
	if err != nil {
		return nil, err
	}
	if !HasMajority(all) {
		return nil, ErrNoQuorum
	}
	if absent := silent(all); len(absent) > 0 && !d.Force {
		return nil, fmt.Errorf("%w: %s; start the sidecars there first, so that no member stays full; or leave these members out: --force",
			ErrNotDefragmented, strings.Join(absent, ", "))
	}
	d.Progress("dropping old revisions")
	if err := client.Compact(ctx); err != nil {
		return nil, err
	}
	if err := d.room(ctx, client, all); err != nil {
		return nil, err
	}
	sorting.By(all, leaderLast)
	var out []Defragmented
	for _, v := range all {
		done := Defragmented{View: v, After: v.Status.DBSize, LeftOut: !v.Healthy}
		if v.Healthy {
			d.Progress("defragmenting " + v.title())
			if done.After, err = defragment(ctx, client, v); err != nil {
				return out, err
			}
		}
		out = append(out, done)
	}
	if _, err := client.DisarmNoSpace(ctx); err != nil {
		return out, err
	}
	return out, stillFull(out)
}

// room requires that each disk whose space is known can hold a copy of the data: etcd would fail in the
// middle, and a disk that is full ends the member.
func (d Defragmentation) room(ctx context.Context, client *etcd.Client, all []View) error {
	if d.Free == nil {
		return nil
	}
	for _, v := range all {
		free, known := d.Free(v)
		if !v.Healthy || !known {
			continue
		}
		status, err := client.MemberStatus(ctx, v.ClientURL)
		if err != nil {
			return err
		}
		if free < status.InUse+diskReserve {
			return fmt.Errorf("%w: the disk of %s has %d MiB free, and the copy of its data needs %d MiB and %d MiB for the log: "+
				"free space there, or add a larger disk, and type the command again; no member was defragmented yet",
				ErrNotDefragmented, v.title(), free>>20, status.InUse>>20, diskReserve>>20)
		}
	}
	return nil
}

// diskReserve is the space that the log of a member may need while the member is defragmented: etcd
// allocates a part of the log at once.
const diskReserve = 64 << 20

func (v View) title() string {
	return fmt.Sprintf("member %s of node %s", keyspace.MemberID(v.ID), v.Node)
}

// silent names the members that cannot be defragmented, with the reason.
func silent(all []View) (out []string) {
	for _, v := range all {
		if !v.Healthy {
			out = append(out, v.title()+": "+v.Problem)
		}
	}
	return out
}

func leaderLast(a, b View) int {
	switch {
	case a.Leader == b.Leader:
		return 0
	case a.Leader:
		return 1
	}
	return -1
}

// defragment returns the size of the member's database, when it serves again.
func defragment(ctx context.Context, client *etcd.Client, v View) (int64, error) {
	if err := client.Defragment(ctx, v.ClientURL); err != nil {
		return 0, err
	}
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second, Jitter: 0.2}
	for {
		status, err := client.MemberStatus(ctx, v.ClientURL)
		if err == nil && status.Leader != 0 {
			return status.DBSize, nil
		}
		if !pauses.Sleep(ctx) {
			return 0, fmt.Errorf("%s was defragmented, and does not serve since: %w", v.title(), errors.Join(err, ctx.Err()))
		}
	}
}

// stillFull returns an error if the data itself needs the quota.
func stillFull(all []Defragmented) error {
	for _, d := range all {
		if d.Status.Quota > 0 && d.After >= d.Status.Quota {
			return fmt.Errorf("%w: the database of %s has %d bytes of data, and its quota is %d: delete what is not needed and type the command again, "+
				"or start the sidecars with a larger --etcd-quota-bytes", ErrNotDefragmented, d.title(), d.After, d.Status.Quota)
		}
	}
	return nil
}
