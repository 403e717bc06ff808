package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file says whether the last upgrade is complete, and how to complete it
// (docs/protocol.md#upgrade-ready).

// Settled reports whether the last upgrade is complete: the status is DONE at the
// one release of all registered controllers, there is at least one of them, and
// no record is corrupt.
func Settled(v protocol.StatusView, f protocol.Fleet) bool {
	return unsettled(v, f) == "" && !slices.ContainsFunc(f.Records, func(r *protocol.Record) bool { return r.Problem != "" })
}

// unsettled says why the last upgrade is not complete, apart from corrupt records;
// empty: it is.
func unsettled(v protocol.StatusView, f protocol.Fleet) string {
	switch v.Kind {
	case protocol.StatusUnknown:
		return "the status has not been read yet"
	case protocol.StatusAbsent:
		return "there is no status: no leader has finished the first reconciliation, or the status was lost"
	case protocol.StatusUndecodable:
		return "the status is corrupt; the leader rebuilds it"
	case protocol.StatusPresent:
	}
	if v.Status.State != protocol.Done {
		return fmt.Sprintf("the status is %s at %s, not DONE", v.Status.State, v.Status.Version.Release)
	}
	return otherRelease(v, f)
}

// leftToDo is unsettled for people: a node of an older release that runs a foreign bundle is another obstacle
// (OtherBundle). To upgrade it is no remedy, it may have lost its --bundle.
func leftToDo(v protocol.StatusView, f protocol.Fleet) string {
	var newest protocol.Release
	for _, r := range f.Records {
		if r.Problem == "" && r.MayServe() && !isForeign(v, r) && newest.Compare(r.Node.Version.Release) < 0 {
			newest = r.Node.Version.Release
		}
	}
	f.Records = slices.DeleteFunc(slices.Clone(f.Records), func(r *protocol.Record) bool {
		return r.Problem == "" && isForeign(v, r) && r.Node.Version.Release.Compare(newest) < 0
	})
	return unsettled(v, f)
}

func isForeign(v protocol.StatusView, r *protocol.Record) bool {
	return protocol.ForeignBundle(v, r.Node.Bundle) != ""
}

// otherRelease says how the controllers' releases differ from v, a status that is
// DONE, and gives the remedy; empty: they do not differ.
func otherRelease(v protocol.StatusView, f protocol.Fleet) string {
	var all []*protocol.Record
	for _, r := range f.Records {
		if r.Problem == "" && r.MayServe() {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return "no controller is registered"
	}
	release := func(r *protocol.Record) protocol.Release { return r.Node.Version.Release }
	slices.SortStableFunc(all, func(a, b *protocol.Record) int { return release(a).Compare(release(b)) })
	latest := release(all[len(all)-1])
	first := slices.IndexFunc(all, func(r *protocol.Record) bool { return release(r) == latest })
	foreign := func(r *protocol.Record) bool { return isForeign(v, r) }
	done := v.Status.Version.Release
	switch older, newest := all[:first], all[first:]; {
	case len(older) > 0 && slices.ContainsFunc(newest, foreign):
		return fmt.Sprintf("the nodes run different releases: %s; upgrade no other node yet: %s", releasesOf(all), foreignFirst(newest, foreign))
	case len(older) > 0 && f.Rollback.On() && release(older[len(older)-1]) == f.Rollback.To: // to go on is no choice now
		return fmt.Sprintf("the nodes run different releases: %s; roll %s back, too", releasesOf(all), protocol.RecordNames(newest))
	case len(older) > 0 && !slices.ContainsFunc(older, foreign) && mayGoBack(older, newest):
		return fmt.Sprintf("the nodes run different releases: %s; to go on: %s; to go back: roll %s back", releasesOf(all), olderRemedy(older, newest), protocol.RecordNames(newest))
	case len(older) > 0:
		return fmt.Sprintf("an upgrade is in progress: %s; %s", releasesOf(all), olderRemedy(older, newest))
	case latest != done:
		return fmt.Sprintf("the status is DONE at %s, and all controllers run %s: the leader has not applied its bundle yet", done, latest)
	}
	return ""
}

// foreignFirst names the nodes of the newest release whose bundle is not the objects' bundle.
// That may be a mistake, and an upgrade of the others would follow it.
func foreignFirst(newest []*protocol.Record, foreign func(*protocol.Record) bool) string {
	var found []*protocol.Record
	for _, r := range newest {
		if foreign(r) {
			found = append(found, r)
		}
	}
	verb := "run"
	if len(found) == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s %s another bundle than that of the objects (%s), which has to be settled first", protocol.RecordNames(found), verb, warn.OtherBundle)
}

// mayGoBack reports whether a rollback may be in progress: in an upgrade, the records of the
// nodes that are still to be upgraded are older than the other records.
func mayGoBack(older, newest []*protocol.Record) bool {
	revision := func(a, b *protocol.Record) int { return cmp.Compare(a.Revision, b.Revision) }
	return slices.MaxFunc(older, revision).Revision > slices.MinFunc(newest, revision).Revision
}

// releasesOf says which nodes run which release. The records are sorted by that.
func releasesOf(all []*protocol.Record) string {
	var out []string
	for len(all) > 0 {
		next := slices.IndexFunc(all, func(r *protocol.Record) bool { return r.Node.Version.Release != all[0].Node.Version.Release })
		if next < 0 {
			next = len(all)
		}
		verb := "run"
		if next == 1 {
			verb = "runs"
		}
		if len(out) == 0 {
			verb += " release"
		}
		out = append(out, fmt.Sprintf("%s %s %s", protocol.RecordNames(all[:next]), verb, all[0].Node.Version.Release))
		all = all[next:]
	}
	return strings.Join(out, ", ")
}

// maxRemedies bounds how many dead nodes a sentence names.
const maxRemedies = 8

// olderRemedy gives the remedy for nodes that are older than the newest ones.
func olderRemedy(older, newest []*protocol.Record) string {
	var alive, dead []*protocol.Record
	for _, r := range older {
		if r.Alive {
			alive = append(alive, r)
		} else {
			dead = append(dead, r)
		}
	}
	broken := slices.DeleteFunc(slices.Clone(newest), works)
	var out []string
	switch {
	case len(alive) > 0 && slices.ContainsFunc(newest, inDeadlockWith):
		out = append(out, fmt.Sprintf("they wait for each other: roll %s back to %s", protocol.RecordNames(newest), alive[0].Node.Version.Release))
	case len(alive) > 0 && len(broken) > 0: // the upgrade would take away the last node that works
		verb := "work"
		if len(broken) == 1 {
			verb = "works"
		}
		out = append(out, fmt.Sprintf("upgrade %s when %s %s again", protocol.RecordNames(alive), protocol.RecordNames(broken), verb))
	case len(alive) > 0:
		out = append(out, "upgrade "+protocol.RecordNames(alive))
	}
	for _, r := range dead[:min(len(dead), maxRemedies)] {
		if r.Removed.On() {
			out = append(out, fmt.Sprintf("%s is not alive, and its etcd member was removed: %s", r.ID, r.DepartureCommands()))
			continue
		}
		if r.MayRestart {
			out = append(out, fmt.Sprintf("%s is not alive: upgrade it, unless it is restarting", r.ID))
			continue
		}
		out = append(out, fmt.Sprintf("%s is not alive: upgrade it, or if it has stopped for good: %s", r.ID, r.DepartureCommands()))
	}
	return strings.Join(out, "; ")
}

// works reports whether a node serves, or will when the leader has written the next status, or when the people who took it
// out of service end that.
func works(r *protocol.Record) bool {
	switch p := r.Presence; {
	case !r.Alive, p.Election == protocol.Withdrawn && !r.Node.Cordon.On():
		return false
	case r.Node.Cordon.On(), LacksGate(r):
		return true
	case p.Ready:
		return r.Serves()
	default:
		return byStatus(p.Reason)
	}
}

// inDeadlockWith reports whether a node leads, waits for older nodes, and reports that
// it is not ready before the objects are new
// (docs/protocol.md#releases-that-can-roll).
func inDeadlockWith(leader *protocol.Record) bool {
	p := leader.Presence
	return leader.Alive && p.Election == protocol.Leading && p.Reason == protocol.ReconcilerTooOld &&
		slices.ContainsFunc(p.Warnings, func(w protocol.Warning) bool { return w.Reason == protocol.ReleaseTooOld })
}
