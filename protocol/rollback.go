package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rollback is a command of people: bring back the objects of an older release while nodes
// of a newer one still serve (docs/protocol-objects.md#rollback). While it is in the store, only
// nodes of exactly its release may lead. The zero Rollback: there is none.
type Rollback struct {
	To           Release
	By           string    // who asked for it, for people
	Since, Until time.Time // Until ends it, by the clock of any sidecar
	Revision     int64     // the key's mod revision; 0: there is none
}

// MaxRollbackTime is how long a rollback can last: it must not be forgotten.
const MaxRollbackTime = 7 * 24 * time.Hour

// On reports whether there is a rollback.
func (r Rollback) On() bool { return r.Revision != 0 }

// leads reports whether a node of a release is one of those that may lead in a rollback.
func (r Rollback) leads(own Release) bool { return r.On() && r.To == own }

// forbids reports whether a node of a release may not lead because of the rollback.
func (r Rollback) forbids(own Release) bool { return r.On() && r.To != own }

// String says where the rollback goes, who asked for it, and until when it lasts, for people.
func (r Rollback) String() string {
	text := "a rollback to " + r.To.String()
	if r.By != "" {
		text += " by " + r.By
	}
	if !r.Until.IsZero() {
		text += " until " + r.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// RollbackDone reports whether the rollback reached its aim: the status is DONE at its
// release, and no registered controller is of a newer one. A corrupt record may be of any
// release.
func RollbackDone(v StatusView, f Fleet) bool {
	s, to := v.Status, f.Rollback.To
	if !f.Rollback.On() || v.Kind != StatusPresent || s.State != Done || s.Version.Release != to || s.ContentRelease != to {
		return false
	}
	return len(f.NewerControllers(to)) == 0 && !slices.ContainsFunc(f.Records, func(r *Record) bool { return r.Problem != "" })
}

// Over reports whether the time of the rollback is over.
func (r Rollback) Over(now time.Time) bool { return r.On() && !now.Before(r.Until) }

// rollbackBlockers returns the controllers that do not fit the objects of a release: they go
// back before the objects.
func rollbackBlockers(f Fleet, to Release) []*Record {
	return slices.DeleteFunc(f.NewerControllers(to), func(r *Record) bool { return !to.Less(r.Node.MinReconciler) })
}

// RollbackAnswer says whether people may begin a rollback, in sentences for them.
type RollbackAnswer struct {
	Refusal string // why they may not, even with --force; empty: they may
	Risk    string // why they need --force; empty: they do not need it
	Stops   string // the consequence until a node of the release starts; empty: one is registered
}

// JudgeRollback decides whether people may begin a rollback to a release.
func JudgeRollback(v StatusView, f Fleet, to Release) RollbackAnswer {
	return RollbackAnswer{Refusal: rollbackRefusal(v, f, to), Risk: rollbackRisk(v, f, to), Stops: rollbackStops(f, to)}
}

func rollbackRefusal(v StatusView, f Fleet, to Release) string {
	if r := f.Rollback; r.On() && r.To != to {
		return fmt.Sprintf("%s is under way; to end it: sidecar rollback end", r)
	}
	if v.Kind != StatusPresent {
		return "there is no reconciler status, so no objects could go back; wait until the leader has written it"
	}
	objects := v.Status.ContentRelease
	if !to.Less(objects) && len(f.NewerControllers(to)) == 0 {
		return fmt.Sprintf("the objects are at release %s, and no registered controller is of a release above %s: nothing goes back to it", objects, to)
	}
	return ""
}

// shutsOut reports whether the status admits no node of a release: one that goes back to it has
// its gate closed until the objects are there.
func shutsOut(v StatusView, to Release) bool {
	return v.Kind != StatusPresent || to.Less(v.Status.MinCompatible)
}

// rollbackRisk: no newer node could serve with the objects of that release, and none of that
// release serves before.
func rollbackRisk(v StatusView, f Fleet, to Release) string {
	unfit := rollbackBlockers(f, to)
	if len(unfit) > 0 && len(unfit) == len(f.NewerControllers(to)) && shutsOut(v, to) {
		return fmt.Sprintf("no node of a newer release fits the objects of release %s (%s), so the objects cannot go back while one of them serves; "+
			"%s; if that is meant: --force", to, releasesNeeded(unfit), forcedRollback(f, to))
	}
	return ""
}

func rollbackStops(f Fleet, to Release) string {
	for _, r := range f.Records {
		if r.Problem == "" && r.Node.Roles.Controller && r.Node.Version.Release == to {
			return ""
		}
	}
	return fmt.Sprintf("until a node of release %s starts, no node leads and nothing is repaired", to)
}

// rollbackNotes describe the consequences of a rollback for the nodes that block it.
func rollbackNotes(v StatusView, f Fleet, to Release) []string {
	unfit, closes := rollbackBlockers(f, to), shutsOut(v, to)
	switch {
	case len(unfit) == 0:
		return nil
	case closes && len(unfit) == len(f.NewerControllers(to)):
		return []string{forcedRollback(f, to)}
	}
	var out []string
	for _, r := range unfit {
		note := fmt.Sprintf("%s needs objects of release %s or newer: it has to go back to %s before the objects do", r.ID, r.Node.MinReconciler, to)
		if closes {
			note += ", and its gate is closed from its restart until they are there"
		}
		out = append(out, note)
	}
	return out
}

// forcedRollback says how long which gates are closed where no newer node fits the old objects.
func forcedRollback(f Fleet, to Release) string {
	ids := RecordNames(f.NewerControllers(to))
	return fmt.Sprintf("each of %s closes its gate when it restarts with %s, until the last of them has restarted and the objects are applied; "+
		"from the stop of the last one until then no node serves; do not use sidecar turn: the first node would keep its turn until then", ids, to)
}

// TurnRisk says why a node may not serve after the work of a turn, as far as that is known before: the turn would not end,
// and no other node would get one. Empty: nothing is known.
func TurnRisk(v StatusView, f Fleet, id NodeID) string {
	own, _ := f.Record(id)
	r := f.Rollback
	others := slices.DeleteFunc(rollbackBlockers(f, r.To), func(n *Record) bool { return n.ID == id })
	switch {
	case r.On() && r.To.Less(own.Node.Version.Release) && len(others) > 0 && shutsOut(v, r.To):
		return fmt.Sprintf("%s is under way: restarted with %s, node %q serves only when %s went back, too, and no other node gets a turn until it serves; "+
			"restart them without sidecar turn", r, r.To, id, RecordNames(others))
	case own.Presence.Reason == ReleaseTooOld || own.Presence.Reason == ReconcilerTooOld:
		return fmt.Sprintf("node %q does not serve now (%s): unless the work brings another release, it keeps its turn, and no other node gets one", id, own.Presence.Reason)
	}
	return ""
}

func releasesNeeded(records []*Record) string {
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%s needs %s or newer", r.ID, r.Node.MinReconciler))
	}
	return strings.Join(out, ", ")
}

// NewerControllers are the registered controllers above a release.
func (f Fleet) NewerControllers(to Release) []*Record {
	var out []*Record
	for _, r := range f.Records {
		if r.Problem == "" && r.MayServe() && to.Less(r.Node.Version.Release) {
			out = append(out, r)
		}
	}
	return out
}

// RollbackProgress says how a rollback that is under way goes on, and how to give it up. It goes
// on when the nodes that it waits for have gone back.
func RollbackProgress(v StatusView, f Fleet) (message string, waitsFor []NodeID) {
	for _, r := range rollbackBlockers(f, f.Rollback.To) {
		waitsFor = append(waitsFor, r.ID)
	}
	return rollbackState(v, f), waitsFor
}

func rollbackState(v StatusView, f Fleet) string {
	r := f.Rollback
	newer := f.NewerControllers(r.To)
	done := v.Kind == StatusPresent && v.Status.State == Done && v.Status.ContentRelease == r.To
	leads := slices.ContainsFunc(f.Records, func(n *Record) bool { return n.AliveController() && r.leads(n.Node.Version.Release) })
	var what string
	switch notes := rollbackNotes(v, f, r.To); {
	case done && len(newer) > 0:
		what = fmt.Sprintf("the objects are at %s; start the other nodes with it, one after another: %s", r.To, RecordNames(newer))
	case done:
		what = "all nodes and objects are there: it ends by itself"
	case !leads:
		what = fmt.Sprintf("no node leads until one of release %s is alive: stop one node, and start it with %s", r.To, r.To)
		what = strings.Join(append([]string{what}, notes...), "; ")
	case len(notes) > 0:
		what = strings.Join(notes, "; ")
	default:
		what = fmt.Sprintf("a node of release %s brings the objects back; the others serve meanwhile", r.To)
	}
	return what + "; to give it up: sidecar rollback end"
}
