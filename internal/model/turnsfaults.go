package model

import "fmt"

// turnSafeguard is a part of the rules that a search can turn off.
type turnSafeguard uint32

const (
	// A turn is taken only if the store did not change since it was read.
	turnGuarded turnSafeguard = 1 << iota
	// The turn of a dead node is kept.
	deadKeeps
	// Other nodes must serve.
	othersServe
	// A majority of the voters is left.
	majorityLeft
	// A turn ends when the node serves again.
	serviceAwaited
	// A node that cannot get the turn does not hold up the nodes behind it.
	passedOver
	// The node that waited for longest is the next.
	queueOrdered
	// A node that was out of service for long waits for no other one that is out.
	turnPatienceEnds
	// Only a node that does not serve is out of service.
	turnPatienceOfBroken
	// A node that serves by an override alone does not serve again.
	overrideEnds
	// The turn of a node ends with its record.
	removedEnds
	// A node without the controller role need not serve again.
	roleEnds
	// The record of a node in its turn is kept when it expires.
	turnKeepsRecord
	// A command reads whether its node still has the turn before it runs.
	turnReread
	// A command does not run after people have ended the cordon of its turn.
	uncordonedStops
	// The node's sidecar ends the turn of a command that was killed when its work was done.
	orphanEnds
	// The node's sidecar notices that the command of its turn does not run any more.
	silenceNoticed
	// People do not end the turn of a command that runs, except by force.
	runningKept
	// A command asks again whether the others serve before it runs.
	othersAskedAgain
	// A cordon that is over stays while the work of a turn is under way.
	cordonStays
)

func (s *turnsState) recover(cfg *TurnsConfig, m turnMove, i int) string {
	n := &s.nodes[i]
	ready := !n.broken && n.cordon == turnCordonNone && !n.roleless
	forced := n.open && !ready && !n.roleless
	switch {
	case m == turnReport && n.up && n.alive && (n.ready != ready || n.forced != forced || n.mayServe):
		n.ready, n.forced, n.mayServe = ready, forced, false
		if forced {
			return "reports that it serves by an override"
		}
		return fmt.Sprintf("reports ready=%t", ready)
	case m == turnStart && !n.gone && (!n.up || !n.alive):
		n.up, n.alive, n.expired = true, true, false
		return "starts"
	case m == turnMemberStart && cfg.Members && !n.member:
		n.member = true
		return "has a member again"
	}
	return ""
}

func (s *turnsState) fail(m turnMove, i int) string {
	n := &s.nodes[i]
	if m == turnExpire && !n.up && n.alive {
		n.alive, n.ready, n.forced = false, false, false
		return "is dead"
	}
	if m == turnKill && n.runs && s.kills > 0 {
		s.kills--
		n.runs = false
		return "has its command killed"
	}
	if m == turnExpire || m == turnKill || s.faults == 0 || !n.up {
		return ""
	}
	s.faults--
	switch {
	case m == turnPowerOff:
		n.up, n.granted, n.stale, n.runs, n.resumed = false, false, false, false, false
		return "is powered off"
	case m == turnBreak && !n.broken:
		n.broken = true
		return "breaks"
	case m == turnMemberFail && n.member:
		n.member = false
		return "loses its member"
	}
	s.faults++
	return ""
}
