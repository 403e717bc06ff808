package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// keep drops the violations, from an index on, that do not name ref.
func keep(violations []Violation, from int, ref string) []Violation {
	kept := slices.DeleteFunc(slices.Clone(violations[from:]), func(v Violation) bool {
		return !strings.Contains(v.Text, ref+" is ")
	})
	return append(violations[:from:from], kept...)
}

// unbounded is above any revision.
const unbounded = int64(1<<63 - 1)

// clock computes which revisions may have been the newest at an instant.
type clock struct {
	readings []Reading       // by Sent
	got      []Reading       // by Got, each with the highest revision known by then
	lowest   []int64         // of each reading: the lowest revision that it or a later one returned
	seen     []time.Duration // of each event: when it, or a later one, was known to have happened
	events   []Event
}

func newClock(h History) clock {
	c := clock{readings: h.Readings, events: h.Events, got: slices.Clone(h.Readings), seen: make([]time.Duration, len(h.Events))}
	slices.SortStableFunc(c.got, func(a, b Reading) int { return cmp.Compare(a.Got, b.Got) })
	for i := 1; i < len(c.got); i++ {
		c.got[i].Revision = max(c.got[i].Revision, c.got[i-1].Revision)
	}
	var earliest time.Duration = 1<<63 - 1
	for i, e := range slices.Backward(h.Events) {
		earliest = min(earliest, e.Seen)
		c.seen[i] = earliest
	}
	c.lowest = make([]int64, len(c.readings))
	lowest := unbounded
	for i, r := range slices.Backward(c.readings) {
		lowest = min(lowest, r.Revision)
		c.lowest[i] = lowest
	}
	return c
}

// earliest is an instant after which a revision was certainly written: a request
// that was sent then read a lower one.
func (c clock) earliest(revision int64) time.Duration {
	if i, _ := slices.BinarySearch(c.lowest, revision); i > 0 {
		return c.readings[i-1].Sent
	}
	return 0
}

// latest is an instant before which a revision was certainly written.
func (c clock) latest(revision int64) time.Duration {
	latest := time.Duration(unbounded)
	i, _ := slices.BinarySearchFunc(c.events, revision, func(e Event, r int64) int { return cmp.Compare(e.Revision, r) })
	if i < len(c.seen) {
		latest = c.seen[i]
	}
	i, _ = slices.BinarySearchFunc(c.got, revision, func(r Reading, want int64) int { return cmp.Compare(r.Revision, want) })
	if i < len(c.got) {
		latest = min(latest, c.got[i].Got)
	}
	return latest
}

// low is a revision that etcd certainly reached by an instant.
func (c clock) low(at time.Duration) int64 {
	var low int64
	if i, _ := slices.BinarySearchFunc(c.got, at+1, func(r Reading, at time.Duration) int { return cmp.Compare(r.Got, at) }); i > 0 {
		low = c.got[i-1].Revision
	}
	if i, _ := slices.BinarySearch(c.seen, at+1); i > 0 {
		low = max(low, c.events[i-1].Revision)
	}
	return low
}

// high is a revision that etcd certainly did not pass by an instant: a request that was
// sent after the instant read it. Without such a read there is no limit.
func (c clock) high(at time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(c.readings, at, func(r Reading, at time.Duration) int { return cmp.Compare(r.Sent, at) })
	if i == len(c.readings) {
		return unbounded
	}
	return c.readings[i].Revision
}

// probes holds the answers to Compatible, Registered and Steady.
func (j *judging) probes() {
	c := j.clock
	last := map[string]Probe{}
	for _, p := range j.h.Probes {
		j.counts.Probes++
		before, found := last[p.Node]
		if found && before.Instance == p.Instance && before.Ready {
			j.counts.Verdicts++
			if !p.Ready && (p.Reason == protocol.ReleaseTooOld || p.Reason == protocol.ReconcilerTooOld) {
				j.checkSteady(c, before, p)
			}
		}
		last[p.Node] = p
		if p.Ready {
			j.counts.Ready++
			j.checkReady(c, p)
		}
	}
}

// checkReady checks an answer that is ready. It is wrong only if it is wrong in
// every state that may have been the current one.
func (j *judging) checkReady(c clock, p Probe) {
	moments := j.between(c.low(p.Sent), c.high(p.Got))
	if len(moments) == 0 {
		j.counts.NotPlaced++
		return
	}
	compatible := slices.ContainsFunc(moments, func(m moment) bool {
		return m.conflict[p.Release].text == ""
	})
	if !compatible && j.once(Compatible, p) {
		j.fail(Compatible, moments[0].revision, "%s #%d of release %s was ready between %.3fs and %.3fs while %s",
			p.Node, p.Instance, p.Release, p.Sent.Seconds(), p.Got.Seconds(), moments[0].conflict[p.Release].text)
		j.violations[len(j.violations)-1].Late = moments[0].conflict[p.Release].late
	}
	registered := slices.ContainsFunc(moments, func(m moment) bool {
		r, found := m.records[p.Node]
		return found && (r.Corrupt || r.mayServe() && r.Release == p.Release)
	})
	if !registered && j.once(Registered, p) {
		j.fail(Registered, moments[0].revision, "%s #%d of release %s was ready between %.3fs and %.3fs, and its record did not have this release",
			p.Node, p.Instance, p.Release, p.Sent.Seconds(), p.Got.Seconds())
	}
}

// between returns the states that may have been current while revisions from low
// to high were the newest.
func (j *judging) between(low, high int64) []moment {
	by := func(m moment, r int64) int { return cmp.Compare(m.revision, r) }
	// The last moment of low, or of the revision before it that was an event.
	from, _ := slices.BinarySearchFunc(j.moments, low+1, by)
	to := len(j.moments)
	if high != unbounded {
		to, _ = slices.BinarySearchFunc(j.moments, high+1, by)
	}
	return j.moments[max(0, from-1):max(to, from)]
}

// checkSteady checks a gate that was open and was closed by the status. It counts
// only if the node was registered all the time, without a change.
func (j *judging) checkSteady(c clock, before, now Probe) {
	moments := j.between(c.low(before.Sent), c.high(now.Got))
	if len(moments) == 0 {
		j.counts.NotPlaced++
		return
	}
	first, found := moments[0].records[now.Node]
	unchanged := found && !first.Corrupt && first.Controller && first.Release == now.Release
	after, upTo := moments[0].revision, moments[len(moments)-1].revision
	for i := range j.h.Events {
		e := &j.h.Events[i]
		if e.Record != nil && e.Record.Node == now.Node && e.Revision > after && e.Revision <= upTo {
			unchanged = false
		}
	}
	if unchanged {
		j.fail(Steady, moments[len(moments)-1].revision, "%s #%d of release %s was ready at %.3fs and %s at %.3fs",
			now.Node, now.Instance, now.Release, before.Got.Seconds(), now.Reason, now.Got.Seconds())
	}
}
