package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file is when a sidecar warns of the disk of its etcd member, and of leaders of etcd
// that come and go (docs/clusters.md#slow-disk).

// Durations counts operations by how long they took, since a process started.
type Durations struct {
	Count   uint64
	Sum     float64          // seconds
	Buckets []DurationBucket // by UpTo
}

// DurationBucket is how many operations took at most UpTo seconds.
type DurationBucket struct {
	UpTo  float64
	Count uint64
}

// Measures are what an etcd member measures of itself, since its process started.
type Measures struct {
	Fsync         Durations // of its log, before it answers a write
	Commit        Durations // of its database
	LeaderChanges uint64    // that it has seen; its first leader is one
}

// The limits of a disk. A member whose disk takes longer than its election timeout loses the
// lead; at a tenth of that, clients wait.
const (
	SlowDisk     = 100 * time.Millisecond
	VerySlowDisk = time.Second
	// someSlow operations within slowWindow that take longer than SlowDisk are a slow disk,
	// and one that takes longer than VerySlowDisk.
	someSlow   = 3
	slowWindow = time.Minute
	// slowHold is how long a disk counts as slow afterwards: each change of a warning is
	// written to etcd, and to that disk.
	slowHold = 5 * time.Minute
	// More than manyChanges leaders within changesWindow are a warning. An upgrade of three
	// nodes changes the leader three times at most.
	manyChanges   = 3
	changesWindow = 10 * time.Minute
)

// MemberHealth is what a sidecar remembers of its member. The zero value remembers
// nothing.
type MemberHealth struct {
	last    Measures
	slow    []slowness  // within slowHold, the oldest first
	changes []time.Time // of etcd's leader, within changesWindow
	losses  []loss      // within changesWindow
}

// slowness is that operations were slow before a time.
type slowness struct {
	at    time.Time
	count int
	worst time.Duration // at least so long took the slowest
}

// loss is that a member no longer answered.
type loss struct {
	at     time.Time
	member string
}

// After returns what is remembered after m was measured. A process that was started again
// counts from zero.
func (h MemberHealth) After(m Measures, at time.Time) MemberHealth {
	last := h.last
	if m.Fsync.Count < last.Fsync.Count || m.Commit.Count < last.Commit.Count || m.LeaderChanges < last.LeaderChanges {
		last = Measures{}
	}
	s := slowness{at: at}
	for _, d := range [][2]Durations{{last.Fsync, m.Fsync}, {last.Commit, m.Commit}} {
		count, worst := slowOf(d[0], d[1])
		s.count, s.worst = s.count+count, max(s.worst, worst)
	}
	out := h.forgotten(at)
	if s.count > 0 {
		out.slow = append(out.slow, s)
	}
	for range int(m.LeaderChanges) - int(max(last.LeaderChanges, 1)) {
		out.changes = append(out.changes, at)
	}
	out.last = m
	return out
}

// Lost returns what is remembered after a member has stopped to answer.
func (h MemberHealth) Lost(member string, at time.Time) MemberHealth {
	out := h.forgotten(at)
	out.losses = append(out.losses, loss{at, member})
	return out
}

// forgotten returns a copy without what is too old.
func (h MemberHealth) forgotten(now time.Time) MemberHealth {
	out := MemberHealth{last: h.last}
	for _, s := range h.slow {
		if now.Sub(s.at) < slowHold {
			out.slow = append(out.slow, s)
		}
	}
	for _, at := range h.changes {
		if now.Sub(at) < changesWindow {
			out.changes = append(out.changes, at)
		}
	}
	for _, l := range h.losses {
		if now.Sub(l.at) < changesWindow {
			out.losses = append(out.losses, l)
		}
	}
	return out
}

// slowOf returns how many operations between two measurements took longer than SlowDisk, and
// how long at least the slowest of them.
func slowOf(before, now Durations) (count int, worst time.Duration) {
	lower, upTo, upToBefore := 0.0, uint64(0), uint64(0)
	add := func(total, totalBefore uint64) {
		took := time.Duration(lower * float64(time.Second))
		if n := int(total-upTo) - int(totalBefore-upToBefore); n > 0 && took >= SlowDisk {
			count, worst = count+n, took
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
	return count, worst
}

// Disk returns the warning of a slow disk, if it is slow. Its text changes seldom.
func (h MemberHealth) Disk(now time.Time) (Warning, bool) {
	h = h.forgotten(now)
	worst, isSlow := time.Duration(0), false
	for i, s := range h.slow {
		worst = max(worst, s.worst)
		count := 0
		for _, later := range h.slow[i:] {
			if later.at.Sub(s.at) < slowWindow {
				count += later.count
			}
		}
		isSlow = isSlow || count >= someSlow || s.worst >= VerySlowDisk
	}
	if !isSlow {
		return Warning{}, false
	}
	return Warning{Reason: DiskSlow, Message: fmt.Sprintf(
		"the disk of its etcd member is slow: within the last %s, a write took %s or longer (limit %s), and the writes of all nodes wait for it; "+
			"find out what else uses that disk, or give --data-dir a faster one", minutes(slowHold), rounded(worst), SlowDisk)}, true
}

// LeaderChanges returns the warning of leaders of etcd that come and go, if they do.
func (h MemberHealth) LeaderChanges(now time.Time) (Warning, bool) {
	h = h.forgotten(now)
	if len(h.changes) <= manyChanges {
		return Warning{}, false
	}
	return Warning{Reason: EtcdLeaderChanges, Since: h.changes[0], Message: fmt.Sprintf(
		"etcd's leader changed %d times within the last %s%s; check the disks, the load and the network of the members",
		len(h.changes), minutes(changesWindow), h.lost())}, true
}

// lost names the members that stopped to answer meanwhile.
func (h MemberHealth) lost() string {
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
			names[i] = fmt.Sprintf("%s %d times", name, n)
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
