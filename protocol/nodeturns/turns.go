package nodeturns

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Facts are the input of decisions about turns, all of one revision.
type Facts struct {
	Fleet  protocol.Fleet
	Voters []protocol.Voter // of the etcd that the sidecars run; empty: they run none
	// Out is how long the node that asks has not served, as its own sidecar has seen; 0: it serves,
	// or that is not known.
	Out time.Duration
}

// held reports whether a node holds a turn.
func (f Facts) held(id protocol.NodeID) bool {
	_, held := f.Fleet.Turns.Of(id)
	return held
}

// Patience is how long a node is out of service until it waits for no other node that is out.
const Patience = time.Minute

// Verdict is the answer to a node that waits for a turn.
type Verdict int

// The verdicts, in the order in which they are tried.
const (
	_ Verdict = iota
	// Held: the node holds a turn already.
	Held
	// NotController: the node is not a registered controller.
	NotController
	// Taken: others hold all turns.
	Taken
	// WaitsForNode: another node is cordoned, dead or not ready.
	WaitsForNode
	// LastInService: no other node would serve.
	LastInService
	// WaitsForMajority: etcd would lose its majority.
	WaitsForMajority
	// Queued: a node that may take the turn waited for longer.
	Queued
	// Granted: the node may take the turn, while these facts hold.
	Granted
)

// Answer says whether a node may take a turn, and if not, why, and for which node it
// waits.
type Answer struct {
	Verdict Verdict
	For     protocol.NodeID // the node that it waits for; empty: none
	Message string          // for people
}

// Judge decides whether a node may take a turn (docs/protocol-nodes.md#turns).
func Judge(f Facts, id protocol.NodeID) Answer {
	answer := f.judge(id, f.Out)
	if answer.Verdict != Granted {
		return answer
	}
	// A node that cannot take the turn now does not hold up the others: it may wait for the
	// very node that is behind it, and is not ready until its work is done.
	for _, w := range f.before(id) {
		if f.judge(w.Node, 0).Verdict == Granted {
			return Answer{Queued, w.Node, fmt.Sprintf("node %q has waited for longer", w.Node)}
		}
	}
	return answer
}

// ExplainWait returns the answer for a node in the queue, for a caller that does not know how long that node has
// not served. It adds the answer after Patience.
func ExplainWait(f Facts, id protocol.NodeID) Answer {
	f.Out = 0
	answer := Judge(f, id)
	own, found := f.Fleet.Record(id)
	if answer.Verdict != WaitsForNode || answer.For == id || !found || own.Serves() {
		return answer
	}
	f.Out = Patience
	later := Judge(f, id)
	answer.Message += fmt.Sprintf("; once node %q has been out of service for %s itself, it no longer waits for that", id, Patience)
	if later.Verdict != Granted {
		answer.Message += ", but: " + later.Message
	}
	return answer
}

// Queue returns the nodes that wait, the first one first.
func (f Facts) Queue() []protocol.TurnRequest {
	return slices.SortedFunc(slices.Values(f.Fleet.Turns.Waiting), func(a, b protocol.TurnRequest) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Node, b.Node))
	})
}

// before returns the nodes that wait and are not behind id, the first one first. All are
// before a node that does not wait.
func (f Facts) before(id protocol.NodeID) []protocol.TurnRequest {
	queue := f.Queue()
	if at := slices.IndexFunc(queue, func(w protocol.TurnRequest) bool { return w.Node == id }); at >= 0 {
		return queue[:at]
	}
	return queue
}

// judge answers without the queue. out is how long the node did not serve.
func (f Facts) judge(id protocol.NodeID, out time.Duration) Answer {
	own, found := f.Fleet.Record(id)
	// Its work takes nothing from clients, and if several are broken, each would wait for another
	// one. A node that is out for a moment waits: it would be out for as long as its work takes.
	staysOut := out >= Patience && found && !own.Serves()
	switch {
	case f.held(id):
		return Answer{Held, id, "it has the turn"}
	case !found || own.Problem != "" || !own.Node.Roles.Controller:
		return Answer{NotController, id, fmt.Sprintf("node %q is not a registered controller", id)}
	case own.Presence.Reason == protocol.Overridden:
		// Its gate would stay open, with clients behind it: an override opens a cordoned gate, too.
		return Answer{WaitsForNode, id, fmt.Sprintf("node %q serves by an override; to end that, %s", id, protocol.EndsOverride(own.Presence.Warnings))}
	case len(f.Fleet.Turns.Held) >= max(f.Fleet.Turns.Limit, 1):
		// Before the state of that node: it is out because of its turn.
		first := f.Fleet.Turns.Held[0]
		return Answer{Taken, first.Node, f.heldBy(first)}
	}
	if answer := f.waitsFor(id); answer.Verdict != 0 && !staysOut {
		return answer
	}
	if own.InService() && !f.leavesOne(id) && !staysOut {
		message := "no other node would serve"
		if !slices.ContainsFunc(f.Fleet.Records, func(r *protocol.Record) bool { return r.ID != id && r.Node.Roles.Controller }) {
			message += fmt.Sprintf(": node %q is the only controller; do its work without a turn", id)
		}
		return Answer{LastInService, "", message}
	}
	if without := f.withoutMajority(id); without != "" {
		return Answer{WaitsForMajority, "", without}
	}
	return Answer{Verdict: Granted}
}

// heldBy names the node with the turn, and the obstacle to its end.
func (f Facts) heldBy(t protocol.Turn) string {
	text := fmt.Sprintf("node %q has the turn", t.Node)
	if t.Work.HasFailed() {
		return text + "; its work has failed"
	}
	if why := f.Fleet.TurnWait(t); why != "" {
		return text + "; its work is done, and it does not serve yet: " + why
	}
	return text
}

// waitsFor returns the first other node that is out without a turn. The zero answer: none is.
func (f Facts) waitsFor(id protocol.NodeID) Answer {
	for _, r := range f.Fleet.Records {
		if r.ID == id || !r.Counts() || f.held(r.ID) {
			continue
		}
		if why := outOfTurn(r); why != "" {
			return Answer{WaitsForNode, r.ID, fmt.Sprintf("node %q %s", r.ID, why)}
		}
	}
	return Answer{}
}

// outOfTurn says why a registered node is out of service; empty: it serves.
func outOfTurn(r *protocol.Record) string {
	switch {
	case r.Problem != "":
		return "has a corrupt record"
	case !r.Alive:
		return "is dead"
	case r.Node.Cordon.On():
		// An override opens its gate for a while only.
		return "is cordoned " + r.Node.Cordon.String()
	case !r.Serves():
		reason, _ := r.WhyServes()
		return fmt.Sprintf("is not ready (%s)", reason)
	default:
		return ""
	}
}

// leavesOne reports whether another node without a turn serves. Overrides end.
func (f Facts) leavesOne(id protocol.NodeID) bool {
	return slices.ContainsFunc(f.Fleet.Records, func(r *protocol.Record) bool {
		return r.ID != id && !f.held(r.ID) && r.Serves() && r.Presence.Reason != protocol.Overridden
	})
}

// withoutMajority says that etcd would lose its majority; empty: it keeps it, or no voter on
// the node answers.
func (f Facts) withoutMajority(id protocol.NodeID) string {
	stay, own := 0, false
	for _, v := range f.Voters {
		switch {
		case !v.Healthy:
		case protocol.NodeID(v.Name) == id:
			own = true
		case !f.held(protocol.NodeID(v.Name)):
			stay++
		}
	}
	if need := protocol.Majority(len(f.Voters)); own && stay < need {
		return fmt.Sprintf("etcd would lose its majority: %d of its %d voters would answer, and it needs %d", stay, len(f.Voters), need)
	}
	return ""
}

// Action is the next action of the node that holds a turn.
type Action int

// The actions.
const (
	_ Action = iota
	// Keep: the work is under way, or failed.
	Keep
	// ReturnToService: the node ends the cordon of its turn, and keeps the turn.
	ReturnToService
	// AwaitService: the node must serve first.
	AwaitService
	// End: the next node may take it.
	End
)

// Progress is the state of a turn, as its node knows it.
type Progress struct {
	Work     protocol.TurnWork
	Cordoned bool            // the cordon in its record belongs to the turn
	Own      protocol.Record // of the node
	Votes    bool            // its member of etcd answers, or it runs none
}

// NextAction decides the next action of the node with the turn.
func NextAction(p Progress) Action {
	switch {
	case p.Work != protocol.TurnWorkDone:
		return Keep
	case p.Cordoned:
		// Before the gate is asked: it is closed because of the cordon. A cordon of people is
		// theirs to end.
		return ReturnToService
	case p.Own.ID != "" && !p.Own.MayServe():
		// People took the controller role: it never serves, and the others would wait for it for ever.
		return End
	case !p.Own.Serves() || p.Own.Presence.Reason == protocol.Overridden || !p.Votes:
		// An override ends, and the node would be out again, in the turn of the next one.
		return AwaitService
	default:
		return End
	}
}
