package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// Rollout is what a forecast is made from: a fleet as it is, and what its nodes
// are to run.
type Rollout struct {
	Fleet  Fleet
	Status StatusView
	Mark   Mark  // MarkUnknown: the API was not asked
	Bundle Local // of the release to be rolled out; without an ID
}

// Foresee rolls a bundle out over a fleet, in thought: one node after the other
// stops and comes back with the bundle, and between any two of these the leader
// does what Next says until it waits. It makes no decision of its own, so it
// cannot disagree with what the sidecars do (DESIGN 4.10).
//
// What it assumes: dead nodes stay dead, corrupt records corrupt, and those that
// withdrew withdrawn; requests to the API succeed; of a release that is not the
// bundle's, and that neither mark nor status tell of, the A is not above the
// minimum of the status.
func Foresee(in Rollout) Forecast {
	w := newWorld(in)
	if in.Status.Kind == StatusUndecodable {
		return Forecast{Now: w.moment(Step{}), Obstacles: []Obstacle{statusCorrupt(in.Status)}}
	}
	out := Forecast{Now: w.moment(Step{})}
	for _, m := range w.moves() {
		out.Moves = append(out.Moves, w.make(m))
	}
	out.Obstacles = obstacles(in, out, w)
	return out
}

// world is a fleet in thought.
type world struct {
	in       Rollout
	fleet    Fleet
	status   StatusView
	mark     Mark
	gates    map[NodeID]*gateState
	leader   NodeID
	epoch    int64
	progress Progress
	events   []string
	changed  bool
	removed  bool
}

// gateState is what of a gate is remembered.
type gateState struct {
	verdict Verdict
	// ill: it is not ready for a reason that is not the protocol's, until it
	// starts anew.
	ill bool
	// dead: it was not alive to begin with.
	dead bool
}

func newWorld(in Rollout) *world {
	w := &world{in: in, fleet: in.Fleet, status: in.Status, mark: in.Mark, gates: map[NodeID]*gateState{}}
	w.fleet.Records = slices.Clone(in.Fleet.Records)
	w.epoch = in.Status.Status.Epoch
	if w.mark.Kind == MarkUnknown {
		w.mark = Mark{Kind: MarkAbsent}
		if in.Status.Kind == StatusPresent {
			w.mark = Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{in.Status.Status.covers()}, HighestEpoch: in.Status.Status.ContentEpoch}
		}
	}
	for _, r := range w.fleet.Records {
		g := &gateState{dead: !r.Alive, verdict: Verdict{Ready: r.Alive && r.Presence.Ready, Reason: r.Presence.Reason}}
		switch r.Presence.Reason {
		case Ready, ReleaseTooOld, ReconcilerTooOld, StatusMissing, StatusCorrupt:
		default:
			g.ill = true
		}
		w.gates[r.ID] = g
		if r.Presence.Election == Leading {
			w.leader = r.ID
		}
	}
	return w
}

// moves are the steps of the rollout, in order: first the nodes that lead least,
// so that leadership moves least.
func (w *world) moves() []Move {
	var out []Move
	reloads, controllers := false, 0
	for _, r := range w.fleet.Records {
		if !r.Counts() || r.Problem != "" {
			continue
		}
		controllers++
		switch {
		case w.restarts(r) && r.Alive:
			out = append(out, Move{Kind: MoveUpgrade, Node: r.ID, From: r.Node.Version, To: w.in.Bundle.Version})
		case w.reloads(r):
			reloads = true
		}
	}
	slices.SortStableFunc(out, func(a, b Move) int { return cmp.Compare(w.rank(a.Node), w.rank(b.Node)) })
	if reloads {
		out = slices.Insert(out, 0, Move{Kind: MoveReload, From: w.in.Bundle.Version, To: w.in.Bundle.Version})
	}
	if controllers == 0 {
		out = append(out, Move{Kind: MoveStart, Node: firstNode, To: w.in.Bundle.Version})
	}
	return out
}

// firstNode stands for a node that nobody knows yet.
const firstNode NodeID = "(first)"

func (w *world) rank(id NodeID) int {
	r, _ := w.fleet.Record(id)
	switch {
	case r.Presence.Election == Withdrawn:
		return 2
	case id == w.leader:
		return 1
	}
	return 0
}

// restarts reports whether a node has to be restarted to run the bundle: a
// running sidecar takes over objects, never a release or constraints (6.1).
func (w *world) restarts(r Record) bool {
	b, s := w.in.Bundle, w.in.Status
	return r.Node.Version != b.Version || r.Node.MinReconciler != b.Constraints.MinReconciler ||
		s.Kind == StatusPresent && s.Status.State == Done && s.Status.ContentRelease == b.Version.Release &&
			s.Status.MinCompatible != b.Constraints.MinApiserver
}

// reloads reports whether a node takes the bundle over without a restart.
func (w *world) reloads(r Record) bool {
	return r.Counts() && r.Problem == "" && r.Alive && !w.restarts(r) && r.Node.Digest != w.in.Bundle.Digest
}

// make makes a move, and lets the leader do what follows.
func (w *world) make(m Move) Move {
	w.events, w.changed, w.removed = nil, false, false
	switch m.Kind {
	case MoveUpgrade:
		w.stop(m.Node)
		m.While = w.settle()
		w.start(m.Node)
	case MoveReload:
		for i, r := range w.fleet.Records {
			if w.reloads(r) {
				w.fleet.Records[i].Node.Digest = w.in.Bundle.Digest
			}
		}
	case MoveStart:
		w.fleet.Records = append(slices.Clone(w.fleet.Records), Record{ID: m.Node, Node: Node{ID: m.Node, Roles: Roles{Controller: true}}})
		slices.SortFunc(w.fleet.Records, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
		w.gates[m.Node] = &gateState{}
		w.start(m.Node)
	case MoveUnset:
	}
	m.After = w.settle()
	m.Events, m.Changed, m.Removed = w.events, w.changed, w.removed
	return m
}

func (w *world) stop(id NodeID) {
	w.record(id, func(r *Record) {
		r.Alive, r.Presence.Ready = false, false
		w.gates[id].verdict = Verdict{Reason: ShuttingDown}
	})
	if w.leader == id {
		w.leader = ""
	}
}

func (w *world) start(id NodeID) {
	w.record(id, func(r *Record) {
		b := w.in.Bundle
		r.Alive = true
		r.Node.Version, r.Node.MinReconciler, r.Node.Digest = b.Version, b.Constraints.MinReconciler, b.Digest
		w.gates[id].ill = false
	})
	w.judge()
}

// record changes a record, as a write of it does.
func (w *world) record(id NodeID, change func(*Record)) {
	i := slices.IndexFunc(w.fleet.Records, func(r Record) bool { return r.ID == id })
	w.fleet.Revision++
	w.fleet.Records[i].Revision = w.fleet.Revision
	change(&w.fleet.Records[i])
}

// judge asks each gate what it says now.
func (w *world) judge() {
	for _, r := range w.fleet.Records {
		g := w.gates[r.ID]
		if !r.Alive || g.ill || r.Problem != "" {
			continue
		}
		g.verdict = Judge(Facts{
			Reached: true, Local: w.local(r), Status: w.status, Served: g.verdict.Ready,
			Registration: Registration{Confirmed: true, Controller: r.Node.Roles.Controller, Revision: r.Revision},
		})
	}
}

// maxTurns bounds what a leader does between two moves; a handful is usual.
const maxTurns = 100

// settle lets the leaders work until there is nothing to do but wait.
func (w *world) settle() Moment {
	for range maxTurns {
		leader, found := w.elect()
		if !found {
			return w.moment(Step{})
		}
		step := Next(w.input(leader))
		switch step.Kind {
		case StepResign:
			w.leader = ""
		case StepReconcile:
			w.reconcile(step)
		case StepWrite:
			w.status = StatusView{Kind: StatusPresent, Status: step.Status, Revision: w.status.Revision + 1}
			if step.Guard.FleetRevision != 0 {
				w.event("%s restricts the status to nodes that fit before and after: version %s, minimum %s", leader.ID, step.Status.Version, step.Status.MinCompatible)
			}
			w.judge()
		case StepSurvey, StepHold, StepAwait, StepUnset:
			if !w.passOver(step) {
				return w.moment(step)
			}
		}
	}
	return w.moment(Step{})
}

// elect returns the leader, and gives it a new epoch where it is another.
func (w *world) elect() (Record, bool) {
	may := func(r Record) bool {
		return r.Alive && r.Presence.Election != Withdrawn && Eligible(w.fleet, w.local(r)).Eligible
	}
	if r, found := w.fleet.Record(w.leader); found && may(r) {
		return r, true
	}
	i := slices.IndexFunc(w.fleet.Records, may)
	if i < 0 {
		w.leader = ""
		return Record{}, false
	}
	w.leader = w.fleet.Records[i].ID
	w.epoch++
	w.progress = Progress{Past: PastDrained}
	w.event("%s leads", w.leader)
	return w.fleet.Records[i], true
}

func (w *world) input(leader Record) Input {
	return Input{Local: w.local(leader), Fleet: w.fleet, Status: w.status, Mark: w.mark, Progress: w.progress}
}

// reconcile makes a pass that finds nothing in its way.
func (w *world) reconcile(step Step) {
	c := step.Work.Content
	if step.Work.Wait {
		w.event("%s makes the objects those of release %s", w.leader, c.Release)
		w.changed = w.changed || c.Same(w.bundle())
	}
	w.removed = w.removed || step.Work.Removals && c.Same(w.bundle()) && w.progress.Finished != c || step.Work.Removals && w.progress.Owed > 0
	w.mark = w.mark.With(c).After(c, Outcome{Complete: true, HighestEpoch: c.Epoch})
	w.progress.Finished, w.progress.Owed = c, 0
	if !step.Work.Removals {
		w.progress.Owed = 1 // whether there are any only the API knows
	}
}

func (w *world) bundle() Content {
	return Content{Release: w.in.Bundle.Version.Release, Digest: w.in.Bundle.Digest}
}

// passOver lets the time go by after which a leader passes over nodes that were
// dead before; false: that does not help.
func (w *world) passOver(step Step) bool {
	helps := false
	for _, b := range step.Blockers {
		r, found := w.fleet.Record(b.Node)
		if !found || !w.gates[b.Node].dead || r.Alive || r.Problem != "" || r.Node.FenceAfter <= 0 || r.Expired() {
			continue
		}
		helps = true
		w.event("%s is passed over once it has been gone for %s", r.ID, r.Node.FenceAfter)
		i := slices.IndexFunc(w.fleet.Records, func(o Record) bool { return o.ID == r.ID })
		w.fleet.Records[i].Gone = r.Node.FenceAfter
	}
	return helps
}

func (w *world) event(format string, args ...any) {
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

// local is what the sidecar of a record runs.
func (w *world) local(r Record) Local {
	out := Local{
		ID: r.ID, Version: r.Node.Version, Digest: r.Node.Digest, FenceAfter: r.Node.FenceAfter, Epoch: w.epoch,
		Constraints: Constraints{MinReconciler: r.Node.MinReconciler, MinApiserver: w.minApiserver(r)},
	}
	if r.Node.Digest == w.in.Bundle.Digest {
		out.PruneImmediately = w.in.Bundle.PruneImmediately
	}
	return out
}

// minApiserver is the A of what a node runs, which its record does not tell: as
// the bundle, the mark or the status say, or else a guess.
func (w *world) minApiserver(r Record) Release {
	if r.Node.Digest == w.in.Bundle.Digest {
		return w.in.Bundle.Constraints.MinApiserver
	}
	for _, e := range w.in.Mark.Entries {
		if e.Digest == r.Node.Digest && e.Release == r.Node.Version.Release {
			return e.Constraints.MinApiserver
		}
	}
	return minRelease(w.in.Status.Status.MinCompatible, r.Node.Version.Release)
}

// moment is how things stand.
func (w *world) moment(step Step) Moment {
	out := Moment{Status: w.status, Leader: w.leader, Step: step}
	for _, r := range w.fleet.Records {
		if !r.Counts() || r.Problem != "" {
			continue
		}
		out.Gates = append(out.Gates, Gate{Node: r.ID, Release: r.Node.Version.Release, Alive: r.Alive, Verdict: w.gates[r.ID].verdict})
	}
	return out
}
