package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file decides when a sidecar warns of a slow disk of its etcd member, and of
// frequent changes of etcd's leader (docs/clusters.md#slow-disk).

// The limits of a disk. A member whose disk takes longer than its election timeout loses the
// lead; at a tenth of that, clients wait.
const (
	slowDisk     = 100 * time.Millisecond
	verySlowDisk = time.Second
	// A disk is slow if one in slowShare operations within slowWindow takes longer than slowDisk,
	// and someSlow of them at least; or if someVerySlow take longer than verySlowDisk. A
	// single pause, as of a laptop that builds something meanwhile, is not: an operator cannot
	// do anything about it.
	slowShare    = 20
	someSlow     = 3
	someVerySlow = 2
	slowWindow   = time.Minute
	// slowHold is how long a disk counts as slow afterwards: each change of a warning is
	// written to etcd, and to that disk.
	slowHold = 5 * time.Minute
	// More than manyChanges leaders within changesWindow are a warning. An upgrade of three
	// nodes changes the leader three times at most.
	manyChanges   = 3
	changesWindow = 10 * time.Minute
	// wantedChange is how long before or after a member leaves, or restarts to replace the CA, a change of the leader
	// belongs to that: a member that leads hands over first, and etcd may want five seconds.
	wantedChange = 20 * time.Second
)

// recentHealth is a sidecar's memory of its member's recent health. The zero value
// remembers nothing.
type recentHealth struct {
	last    member.Measures
	disk    []diskTimes // within slowHold, the oldest first
	changes []time.Time // of etcd's leader, within changesWindow
	losses  []loss      // within changesWindow
	wanted  []time.Time // when people wanted a change, within changesWindow and wantedChange
}

// diskTimes are the operations between two measurements.
type diskTimes struct {
	at             time.Time // of the second one
	all            int
	slow, verySlow int           // that took longer than slowDisk, and verySlowDisk
	worst          time.Duration // how long at least the slowest of slow took
}

// plus returns the operations of both, at the time of d.
func (d diskTimes) plus(o diskTimes) diskTimes {
	d.all, d.slow, d.verySlow, d.worst = d.all+o.all, d.slow+o.slow, d.verySlow+o.verySlow, max(d.worst, o.worst)
	return d
}

// isSlow reports whether these operations, of one slowWindow, show a slow disk.
func (d diskTimes) isSlow() bool {
	return d.slow >= someSlow && d.slow*slowShare >= d.all || d.verySlow >= someVerySlow
}

// loss records when a member stopped answering.
type loss struct {
	at     time.Time
	member string // the node ID, or the ID of the member
}

// after returns the memory after m was measured. A restarted process counts from zero.
func (h recentHealth) after(m member.Measures, at time.Time) recentHealth {
	last := h.last
	if m.Fsync.Count < last.Fsync.Count || m.Commit.Count < last.Commit.Count || m.LeaderChanges < last.LeaderChanges {
		last = member.Measures{}
	}
	times := diskTimes{at: at}.plus(timesOf(last.Fsync, m.Fsync)).plus(timesOf(last.Commit, m.Commit))
	h = h.forgotten(at)
	h.disk = append(h.disk, times)
	for range int(m.LeaderChanges) - int(max(last.LeaderChanges, 1)) {
		h.changes = append(h.changes, at)
	}
	h.last = m
	return h
}

// losing returns the memory after a member stopped answering.
func (h recentHealth) losing(name string, at time.Time) recentHealth {
	h = h.forgotten(at)
	h.losses = append(h.losses, loss{at, name})
	return h
}

// changing returns the memory after something that people want changed the leader, or may soon.
func (h recentHealth) changing(at time.Time) recentHealth {
	h = h.forgotten(at)
	h.wanted = append(h.wanted, at)
	return h
}

// unwanted returns the changes of the leader that belong to nothing that people want.
func (h recentHealth) unwanted() []time.Time {
	return slices.DeleteFunc(slices.Clone(h.changes), func(changed time.Time) bool {
		return slices.ContainsFunc(h.wanted, func(at time.Time) bool { return changed.Sub(at).Abs() <= wantedChange })
	})
}

// forgotten returns a copy without the entries that are too old.
func (h recentHealth) forgotten(now time.Time) recentHealth {
	h.disk = slices.DeleteFunc(slices.Clone(h.disk), func(d diskTimes) bool { return now.Sub(d.at) >= slowHold })
	h.changes = slices.DeleteFunc(slices.Clone(h.changes), func(at time.Time) bool { return now.Sub(at) >= changesWindow })
	h.losses = slices.DeleteFunc(slices.Clone(h.losses), func(l loss) bool { return now.Sub(l.at) >= changesWindow })
	h.wanted = slices.DeleteFunc(slices.Clone(h.wanted), func(at time.Time) bool { return now.Sub(at) >= changesWindow+wantedChange })
	return h
}

// timesOf returns the operations between two measurements.
func timesOf(before, now member.Durations) diskTimes {
	out := diskTimes{all: int(now.Count - before.Count)}
	lower, upTo, upToBefore := 0.0, uint64(0), uint64(0)
	add := func(total, totalBefore uint64) {
		took, n := time.Duration(lower*float64(time.Second)), int(total-upTo)-int(totalBefore-upToBefore)
		if n <= 0 || took < slowDisk {
			return
		}
		out.slow, out.worst = out.slow+n, took
		if took >= verySlowDisk {
			out.verySlow += n
		}
	}
	for i, b := range now.Buckets {
		was := uint64(0)
		if i < len(before.Buckets) {
			was = before.Buckets[i].Count
		}
		add(b.Count, was)
		lower, upTo, upToBefore = b.UpTo, b.Count, was
	}
	add(now.Count, before.Count) // longer than the last bucket
	return out
}

// diskWarning returns the warning of a slow disk, if it is slow. Its text changes seldom.
func (h recentHealth) diskWarning(now time.Time) (protocol.Warning, bool) {
	h = h.forgotten(now)
	var all diskTimes
	isSlow := false
	for i, first := range h.disk {
		all = all.plus(first)
		var window diskTimes
		for _, later := range h.disk[i:] {
			if later.at.Sub(first.at) < slowWindow {
				window = window.plus(later)
			}
		}
		isSlow = isSlow || window.isSlow()
	}
	if !isSlow {
		return protocol.Warning{}, false
	}
	return protocol.Warning{Reason: warn.DiskSlow, Message: fmt.Sprintf(
		"the disk of its etcd member is slow, or its machine has too much to do: within the last %s, a write took %s or longer (limit %s), and the writes "+
			"of all nodes wait for it; find out what else uses that disk and that machine, or give --data-dir a faster disk", minutes(slowHold), rounded(all.worst), slowDisk)}, true
}

// leaderWarning returns the warning that etcd's leader changes too often, if it does.
func (h recentHealth) leaderWarning(now time.Time) (protocol.Warning, bool) {
	h = h.forgotten(now)
	changes := h.unwanted()
	if len(changes) <= manyChanges {
		return protocol.Warning{}, false
	}
	return protocol.Warning{Reason: warn.EtcdLeaderChanges, Since: changes[0], Message: fmt.Sprintf(
		"etcd's leader changed %d times within the last %s%s; check the disks, the load and the network of the members",
		len(changes), minutes(changesWindow), h.lost())}, true
}

// lost names the members that stopped answering meanwhile.
func (h recentHealth) lost() string {
	times := map[string]int{}
	var names []string
	for _, l := range h.losses {
		if times[l.member]++; times[l.member] == 1 {
			names = append(names, l.member)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		if n := times[name]; n > 1 {
			names[i] = fmt.Sprintf("%s (%d times)", name, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": in that time, these members stopped answering: " + strings.Join(names, ", ")
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }

// rounded is a bound of a bucket, for people: 2.048 s is 2s.
func rounded(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Truncate(time.Second)
	}
	return d.Truncate(100 * time.Millisecond)
}
