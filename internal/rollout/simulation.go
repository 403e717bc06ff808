package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// simulation is a fleet in memory, with its status, its mark and its leader.
type simulation struct {
	in       Input
	fleet    protocol.Fleet // its records belong to the simulation
	status   protocol.StatusView
	mark     protocol.Mark
	gates    map[protocol.NodeID]*gateState
	leader   protocol.NodeID // empty: no node leads
	epoch    int64
	progress protocol.Progress // of the leader
	holds    protocol.NodeID   // the leader that was last reported to hold; empty: none does

	// Effects of the current move.
	events  []string
	changed bool
	removed bool
}

// gateState is the simulation's memory of a gate.
type gateState struct {
	verdict protocol.Verdict
	// stuck: the node is not ready for a reason outside the protocol, and stays
	// so until it is restarted.
	stuck bool
	// wasDead: the node was not alive when the simulation began.
	wasDead bool
}

func newSimulation(in Input) *simulation {
	s := &simulation{in: in, fleet: in.Fleet, status: in.Status, mark: in.Mark, gates: map[protocol.NodeID]*gateState{}}
	s.fleet.Records = make([]*protocol.Record, 0, len(in.Fleet.Records)+1)
	for _, r := range in.Fleet.Records {
		own := *r
		s.fleet.Records = append(s.fleet.Records, &own)
	}
	if in.Rollback {
		s.fleet.Rollback = protocol.Rollback{To: in.Bundle.Version.Release, Revision: 1}
	}
	s.epoch = in.Status.Status.Epoch
	if s.mark.Kind == protocol.MarkUnknown {
		s.mark = assumedMark(in.Status)
	}
	for _, r := range s.fleet.Records {
		s.gates[r.ID] = newGateState(r)
		if r.Presence.Election == protocol.Leading {
			s.leader = r.ID
		}
	}
	return s
}

// assumedMark is the mark that a leader would write beside a status.
func assumedMark(v protocol.StatusView) protocol.Mark {
	if v.Kind != protocol.StatusPresent {
		return protocol.Mark{Kind: protocol.MarkAbsent}
	}
	return protocol.Mark{
		Kind: protocol.MarkPresent, FirstDone: true,
		Entries: []protocol.Content{v.Status.Covered()}, HighestEpoch: v.Status.ContentEpoch,
	}
}

func newGateState(r *protocol.Record) *gateState {
	g := &gateState{wasDead: !r.Alive, verdict: protocol.Verdict{Ready: r.Alive && r.Presence.Ready, Reason: r.Presence.Reason}}
	switch r.Presence.Reason {
	case protocol.Ready, protocol.ReleaseTooOld, protocol.ReconcilerTooOld, protocol.StatusMissing, protocol.StatusCorrupt:
	default:
		g.stuck = true
	}
	return g
}

// add registers a controller that does not run yet.
func (s *simulation) add(id protocol.NodeID) {
	r := &protocol.Record{ID: id, Node: protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}}}
	s.fleet.Records = append(s.fleet.Records, r)
	slices.SortFunc(s.fleet.Records, func(a, b *protocol.Record) int { return cmp.Compare(a.ID, b.ID) })
	s.gates[id] = &gateState{}
}

func (s *simulation) stop(id protocol.NodeID) {
	s.changeRecord(id, func(r *protocol.Record) { r.Alive, r.MayRestart, r.Presence.Ready = false, true, false })
	s.gates[id].verdict = protocol.Verdict{Reason: protocol.ShuttingDown}
	if s.leader == id {
		s.leader = ""
	}
}

func (s *simulation) start(id protocol.NodeID) {
	b := s.in.Bundle
	s.changeRecord(id, func(r *protocol.Record) {
		r.Alive = true
		r.Node.Version, r.Node.MinReconciler, r.Node.Digest, r.Node.Bundle = b.Version, b.Constraints.MinReconciler, b.Digest, b.Bundle
	})
	s.gates[id].stuck = false
	s.judgeGates()
}

// changeRecord changes a record, at a new revision.
func (s *simulation) changeRecord(id protocol.NodeID, change func(*protocol.Record)) {
	i := slices.IndexFunc(s.fleet.Records, func(r *protocol.Record) bool { return r.ID == id })
	s.fleet.Revision++
	s.fleet.Records[i].Revision = s.fleet.Revision
	change(s.fleet.Records[i])
}

// judgeGates gives every live gate its verdict.
func (s *simulation) judgeGates() {
	for _, r := range s.fleet.Records {
		g := s.gates[r.ID]
		if !r.Alive || g.stuck || r.Problem != "" {
			continue
		}
		g.verdict = protocol.Judge(protocol.Facts{
			Reached: true, Local: s.local(r), Status: s.status, Served: g.verdict.Ready,
			Registration: protocol.Registration{
				Matches: true, Controller: r.Node.Roles.Controller, Cordon: r.Node.Cordon, Revision: r.Revision,
			},
		})
	}
}

// maxSteps bounds the steps of leaders between two moves. A handful is usual.
const maxSteps = 100

// settle lets the leaders work until there is nothing left to do but wait.
func (s *simulation) settle() Moment {
	for range maxSteps {
		leader := s.elect()
		if leader == nil {
			break
		}
		step := protocol.Next(protocol.Input{
			Local: s.local(leader), Fleet: s.fleet, Status: s.status, Store: s.in.Store, Mark: s.mark, Progress: s.progress,
			Replacement: s.in.Replacement,
		})
		switch step.Kind {
		case protocol.StepResign:
			s.leader = ""
		case protocol.StepReconcile:
			s.reconcile(step)
		case protocol.StepWrite:
			s.write(step)
		case protocol.StepSurvey, protocol.StepHold, protocol.StepAwait, protocol.StepUnset:
			if !s.expireBlockers(step) {
				s.reportHold(step)
				return s.moment(step)
			}
		}
	}
	return s.moment(protocol.Step{})
}

// elect returns the record of the leader, or nil. A new leader gets a new epoch.
func (s *simulation) elect() *protocol.Record {
	mayLead := func(r *protocol.Record) bool {
		return r.Alive && r.Presence.Election != protocol.Withdrawn && protocol.Eligible(s.fleet, s.local(r)).Eligible
	}
	if r, registered := s.fleet.Record(s.leader); registered && mayLead(&r) {
		return &r
	}
	i := slices.IndexFunc(s.fleet.Records, mayLead)
	if i < 0 {
		s.leader = ""
		return nil
	}
	s.leader = s.fleet.Records[i].ID
	s.epoch++
	s.progress = protocol.Progress{Predecessors: protocol.Drained}
	s.report("%s leads", s.leader)
	return s.fleet.Records[i]
}

func (s *simulation) write(step protocol.Step) {
	s.status = protocol.StatusView{Kind: protocol.StatusPresent, Status: step.Status, Revision: s.status.Revision + 1}
	if step.Guard.FleetRevision != 0 {
		s.report("%s restricts the status to nodes that fit the objects before and after: release %s, minimum release %s",
			s.leader, step.Status.Version, step.Status.MinCompatible)
	}
	s.judgeGates()
}

// reconcile makes a pass over the objects that succeeds.
func (s *simulation) reconcile(step protocol.Step) {
	c := step.Work.Content
	ofBundle := c.Same(protocol.Content{Release: s.in.Bundle.Version.Release, Digest: s.in.Bundle.Digest})
	if step.Work.Wait {
		s.report("%s applies the objects of release %s", s.leader, c.Release)
		s.changed = s.changed || ofBundle
	}
	firstPass := ofBundle && s.progress.Finished != c
	if step.Work.Removals && (firstPass || s.progress.Owed > 0) {
		s.removed = true
	}
	s.mark = s.mark.With(c).After(c, protocol.Outcome{Complete: true, HighestEpoch: c.Epoch})
	s.progress.Finished, s.progress.Owed = c, 0
	if !step.Work.Removals {
		s.progress.Owed = 1 // only the API knows whether there are any
	}
}

// expireBlockers lets the time pass after which the leader ignores blockers that
// were dead from the start. It returns false where none of them ever expires.
func (s *simulation) expireBlockers(step protocol.Step) bool {
	expired := false
	for _, b := range step.Blockers {
		r, registered := s.fleet.Record(b.Node)
		if !registered || !s.gates[b.Node].wasDead || r.Alive || r.Problem != "" || r.Node.ExpireAfter <= 0 || r.Expired() {
			continue
		}
		expired = true
		s.report("the leader ignores %s once it has been gone for %s", r.ID, r.Node.ExpireAfter)
		i := slices.IndexFunc(s.fleet.Records, func(o *protocol.Record) bool { return o.ID == r.ID })
		s.fleet.Records[i].Gone = r.Node.ExpireAfter
	}
	return expired
}

// reportHold says, once for each leader, that it leaves the objects of another bundle alone.
func (s *simulation) reportHold(step protocol.Step) {
	if step.Rule != protocol.HoldForBundle {
		s.holds = ""
		return
	}
	if s.holds != s.leader {
		s.holds = s.leader
		s.report("%s holds (%s), and applies nothing: see OBSTACLES", s.leader, step.Rule)
	}
}

func (s *simulation) report(format string, args ...any) {
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

// local describes the sidecar of a record.
func (s *simulation) local(r *protocol.Record) protocol.Local {
	out := protocol.Local{
		ID: r.ID, Version: r.Node.Version, Digest: r.Node.Digest, Bundle: r.Node.Bundle, ExpireAfter: r.Node.ExpireAfter, Epoch: s.epoch,
		Constraints: protocol.Constraints{MinReconciler: r.Node.MinReconciler, MinAPIServer: s.minAPIServer(r)},
	}
	if r.Node.Digest == s.in.Bundle.Digest {
		out.PruneImmediately = s.in.Bundle.PruneImmediately
	}
	return out
}

// minAPIServer is the minApiserverRelease of a node's bundle, which its record
// does not carry: from the bundle or the mark, or else a guess from the status.
func (s *simulation) minAPIServer(r *protocol.Record) protocol.Release {
	if r.Node.Digest == s.in.Bundle.Digest {
		return s.in.Bundle.Constraints.MinAPIServer
	}
	for _, e := range s.in.Mark.Entries {
		if e.Digest == r.Node.Digest && e.Release == r.Node.Version.Release {
			return e.Constraints.MinAPIServer
		}
	}
	if guess := s.in.Status.Status.MinCompatible; guess.Less(r.Node.Version.Release) {
		return guess
	}
	return r.Node.Version.Release
}

// moment returns the state of the fleet.
func (s *simulation) moment(step protocol.Step) Moment {
	out := Moment{Status: s.status, Leader: s.leader, Step: step}
	for _, r := range s.fleet.Records {
		if isController(r) {
			out.Gates = append(out.Gates, Gate{Node: r.ID, Release: r.Node.Version.Release, Alive: r.Alive, Verdict: s.gates[r.ID].verdict})
		}
	}
	return out
}
