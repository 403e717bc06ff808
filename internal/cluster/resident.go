package cluster

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// resident is the part that stays with this node: its data directory, the marker in it, and
// the process of the member that uses it. While a sidecar runs, only its resident deletes or moves
// the data of etcd, and asks the protocol before that (docs/protocol-membership.md#clear). Without
// one, `sidecar cluster restore` does so (backup.Restore), which holds the lock of the directory.
type resident struct {
	dir    *datadir.Dir             // since the first step
	disk   disk                     // dir, as an interface
	run    *event.Value[*memberRun] // since the step "member"; nil in it: there is none
	marker datadir.Marker           // as it is on the disk; zero: there is none
	// adopted is called with each marker that is on the disk.
	adopted func(datadir.Marker)
}

// writeMarker changes the marker on the disk, and then the resident's copy.
func (r *resident) writeMarker(edit func(*datadir.Marker)) error {
	next := r.marker
	edit(&next)
	if err := r.disk.WriteMarker(next); err != nil {
		return err
	}
	r.adopt(next)
	return nil
}

// adopt takes a marker that is on the disk as the resident's copy.
func (r *resident) adopt(m datadir.Marker) {
	r.marker = m
	r.adopted(m)
}

// settle writes into the marker that the member works: from then on, no sidecar makes its data again.
func (r *resident) settle(ids memberIDs) error {
	if ids.member == 0 || ids.cluster == 0 {
		return errors.New("fault of this program: the member has no IDs")
	}
	return r.writeMarker(func(m *datadir.Marker) {
		m.Phase, m.MemberID, m.EtcdClusterID = datadir.Member, keyspace.MemberID(ids.member), keyspace.MemberID(ids.cluster)
	})
}

// current returns the member while it is kept running; nil: there is none.
func (r *resident) current() *memberRun { return r.run.Get() }

// endMember stops the member and waits for it. Without one it does nothing.
func (r *resident) endMember() {
	run := r.current()
	if run == nil {
		return
	}
	run.end()
	r.run.Set(nil)
}

// close stops the member, and unlocks the directory.
func (r *resident) close() error {
	r.endMember()
	if r.dir == nil {
		return nil
	}
	return r.dir.Close()
}

// runs reports whether the member's process runs, or may run.
func (r *resident) runs() bool {
	run := r.current()
	return run != nil && !run.ended()
}

// markerFacts returns the facts of a marker and of etcd's files on the disk.
func (r *resident) markerFacts(m datadir.Marker) membership.MarkerFacts {
	entering := (m.Phase == datadir.Begun || m.Phase == datadir.Enrolled) && m.Intent != datadir.Restore
	return membership.MarkerFacts{
		Entering: entering, Founds: entering && m.Intent == datadir.Create, Phase: phaseOf(m.Phase),
		Log: r.disk.EtcdBegun(), Founded: r.disk.EtcdBootstrapped(),
	}
}

// clearUnbegun deletes the files of an etcd that ended before it wrote a log: another one
// would begin a log beside that database, and never become ready. A member with a log
// worked before, and goes on. The log of a new cluster must also contain its first member.
func (r *resident) clearUnbegun() error {
	facts := r.markerFacts(r.marker)
	facts.Runs = r.runs()
	return r.clear(facts, "delete what an interrupted creation left")
}

// prepareMember does the same before each start of the process, until the marker's phase is
// Member: the disk may have been full when etcd allocated its log. A member whose log is damaged
// later stays as it is, for people. The marker on the disk counts, because the supervisor calls
// this while the steps go on; the process does not run.
func (r *resident) prepareMember() error {
	marker, err := r.disk.ReadMarker()
	if err != nil {
		return err
	}
	return r.clear(r.markerFacts(marker), "delete what an interrupted start left")
}

// clear deletes the data, if it may be.
func (r *resident) clear(facts membership.MarkerFacts, what string) error {
	if !membership.MayClear(facts) {
		return nil
	}
	if err := r.disk.RemoveAll(r.disk.Etcd()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// clearReplaced deletes the data of an earlier attempt to join, if the cluster added this
// node as another member since.
func (r *resident) clearReplaced(id string) error {
	facts := r.markerFacts(r.marker)
	facts.Runs, facts.Replaced = r.runs(), r.marker.MemberID != id
	if facts.Replaced && !membership.MayClear(facts) {
		return fmt.Errorf("the cluster has added this node as the member %s, and the data of %q in %s may be in use", id, r.marker.MemberID, r.disk.Etcd())
	}
	if !facts.Replaced {
		return nil
	}
	return r.clear(facts, "delete what an earlier attempt to join left")
}

// moveAway moves the data of a member away, and replaces the data that it moved away before.
// Listed reports whether the list of the members contains the member.
func (r *resident) moveAway(listed membership.Listed) error {
	facts := r.markerFacts(r.marker)
	facts.Runs, facts.Listed = r.runs(), listed
	if !membership.MayClear(facts) {
		return errors.New("the data of the member is not moved away: the list of the members may still have it")
	}
	if r.disk.Present(r.disk.Etcd()) { // else an earlier attempt moved it
		if err := r.disk.RemoveAll(r.disk.Left()); err != nil {
			return err
		}
		if err := r.disk.Rename(r.disk.Etcd(), r.disk.Left()); err != nil {
			return err
		}
	}
	return r.disk.SyncDir(r.disk.Path())
}
