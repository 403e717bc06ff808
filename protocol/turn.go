package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// TurnFacts are the input of decisions about turns, all of one revision.
type TurnFacts struct {
	Limit   int // how many nodes may hold a turn; less than one counts as one
	Fleet   Fleet
	Held    []NodeID      // the nodes that hold a turn
	Waiting []TurnRequest // in any order
	Voters  []Voter       // empty: the sidecars run no etcd
	// Out is how long the node that asks has not served, as its own sidecar has seen; 0: it serves,
	// or that is not known.
	Out time.Duration
}

// TurnPatience is how long a node is out of service until it waits for no other node that is out.
const TurnPatience = time.Minute

// TurnVerdict is the answer to a node that waits for a turn.
type TurnVerdict int

// The verdicts, in the order in which they are tried.
const (
	_ TurnVerdict = iota
	// TurnHeld: the node holds a turn already.
	TurnHeld
	// TurnNotController: the node is not a registered controller.
	TurnNotController
	// TurnTaken: others hold all turns.
	TurnTaken
	// TurnWaitsForNode: another node is cordoned, dead or not ready.
	TurnWaitsForNode
	// TurnLastInService: no other node would serve.
	TurnLastInService
	// TurnWaitsForMajority: etcd would lose its majority.
	TurnWaitsForMajority
	// TurnQueued: a node that may take the turn has waited for longer.
	TurnQueued
	// TurnGranted: the node may take the turn, while these facts hold.
	TurnGranted
)

// TurnAnswer says whether a node may take a turn, and if not, why, and for which node it
// waits.
type TurnAnswer struct {
	Verdict TurnVerdict
	For     NodeID // the node that it waits for; empty: none
	Message string // for people
}

// JudgeTurn decides whether a node may take a turn (docs/protocol-nodes.md#turns).
func JudgeTurn(f TurnFacts, id NodeID) TurnAnswer {
	answer := f.judge(id, f.Out)
	if answer.Verdict != TurnGranted {
		return answer
	}
	// A node that cannot take the turn now does not hold up the others: it may wait for the
	// very node that is behind it, and is not ready until its work is done.
	for _, w := range f.before(id) {
		if f.judge(w.Node, 0).Verdict == TurnGranted {
			return TurnAnswer{TurnQueued, w.Node, fmt.Sprintf("node %q has waited for longer", w.Node)}
		}
	}
	return answer
}

// ExplainWait returns the answer for a node in the queue, for a caller that does not know how long that node has
// not served. It adds the answer after TurnPatience.
func ExplainWait(f TurnFacts, id NodeID) TurnAnswer {
	f.Out = 0
	answer := JudgeTurn(f, id)
	own, found := f.Fleet.Record(id)
	if answer.Verdict != TurnWaitsForNode || answer.For == id || !found || own.Serves() {
		return answer
	}
	f.Out = TurnPatience
	later := JudgeTurn(f, id)
	answer.Message += fmt.Sprintf("; once node %q has been out of service for %s itself, it no longer waits for that", id, TurnPatience)
	if later.Verdict != TurnGranted {
		answer.Message += ", but: " + later.Message
	}
	return answer
}

// Queue returns the nodes that wait, the first one first.
func (f TurnFacts) Queue() []TurnRequest {
	return slices.SortedFunc(slices.Values(f.Waiting), func(a, b TurnRequest) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Node, b.Node))
	})
}

// before returns the nodes that wait and are not behind id, the first one first. All are
// before a node that does not wait.
func (f TurnFacts) before(id NodeID) []TurnRequest {
	queue := f.Queue()
	if at := slices.IndexFunc(queue, func(w TurnRequest) bool { return w.Node == id }); at >= 0 {
		return queue[:at]
	}
	return queue
}

// judge answers without the queue. out is how long the node has not served.
func (f TurnFacts) judge(id NodeID, out time.Duration) TurnAnswer {
	own, found := f.Fleet.Record(id)
	// Its work takes nothing from clients, and if several are broken, each would wait for another
	// one. A node that is out for a moment waits: it would be out for as long as its work takes.
	staysOut := out >= TurnPatience && found && !own.Serves()
	switch {
	case slices.Contains(f.Held, id):
		return TurnAnswer{TurnHeld, id, "it has the turn"}
	case !found || own.Problem != "" || !own.Node.Roles.Controller:
		return TurnAnswer{TurnNotController, id, fmt.Sprintf("node %q is not a registered controller", id)}
	case own.Presence.Reason == Overridden:
		// Its gate would stay open, with clients behind it: an override opens a cordoned gate, too.
		return TurnAnswer{TurnWaitsForNode, id, fmt.Sprintf("node %q serves by an override; type there: sidecar override end", id)}
	case len(f.Held) >= max(f.Limit, 1):
		// Before the state of that node: it is out because of its turn.
		return TurnAnswer{TurnTaken, f.Held[0], fmt.Sprintf("node %q has the turn", f.Held[0])}
	}
	if answer := f.waitsFor(id); answer.Verdict != 0 && !staysOut {
		return answer
	}
	if own.InService() && !f.leavesOne(id) && !staysOut {
		message := "no other node would serve"
		if !slices.ContainsFunc(f.Fleet.Records, func(r *Record) bool { return r.ID != id && r.Node.Roles.Controller }) {
			message += fmt.Sprintf(": node %q is the only controller; do its work without a turn", id)
		}
		return TurnAnswer{TurnLastInService, "", message}
	}
	if without := f.withoutMajority(id); without != "" {
		return TurnAnswer{TurnWaitsForMajority, "", without}
	}
	return TurnAnswer{Verdict: TurnGranted}
}

// waitsFor returns the first other node that is out without a turn. The zero answer: none is.
func (f TurnFacts) waitsFor(id NodeID) TurnAnswer {
	for _, r := range f.Fleet.Records {
		if r.ID == id || !r.Counts() || slices.Contains(f.Held, r.ID) {
			continue
		}
		if why := r.outOfTurn(); why != "" {
			return TurnAnswer{TurnWaitsForNode, r.ID, fmt.Sprintf("node %q %s", r.ID, why)}
		}
	}
	return TurnAnswer{}
}

// outOfTurn says why a registered node is out of service; empty: it serves.
func (r *Record) outOfTurn() string {
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
func (f TurnFacts) leavesOne(id NodeID) bool {
	return slices.ContainsFunc(f.Fleet.Records, func(r *Record) bool {
		return r.ID != id && !slices.Contains(f.Held, r.ID) && r.Serves() && r.Presence.Reason != Overridden
	})
}

// withoutMajority says that etcd would lose its majority; empty: it keeps it, or no voter on
// the node answers.
func (f TurnFacts) withoutMajority(id NodeID) string {
	stay, own := 0, false
	for _, v := range f.Voters {
		switch {
		case !v.Healthy:
		case NodeID(v.Name) == id:
			own = true
		case !slices.Contains(f.Held, NodeID(v.Name)):
			stay++
		}
	}
	if need := Majority(len(f.Voters)); own && stay < need {
		return fmt.Sprintf("etcd would lose its majority: %d of its %d voters would answer, and it needs %d", stay, len(f.Voters), need)
	}
	return ""
}

// TurnWork is the progress of the work of a turn.
type TurnWork int

// The work of a turn. Work that failed keeps the turn: the next node would fail as well.
const (
	_ TurnWork = iota
	TurnWorkUnderWay
	TurnWorkFailed
	// TurnWorkInterrupted: the command of the turn does not run any more, and reported no end. It
	// was killed, or its machine stopped.
	TurnWorkInterrupted
	TurnWorkDone
)

// HasFailed reports whether people have to begin the work again, or to give the turn up.
func (w TurnWork) HasFailed() bool { return w == TurnWorkFailed || w == TurnWorkInterrupted }

// String returns the word for /status.
func (w TurnWork) String() string {
	switch w {
	case TurnWorkFailed, TurnWorkInterrupted:
		return "Failed"
	case TurnWorkDone:
		return "Done"
	default:
		return "UnderWay"
	}
}

// TurnAction is the next action of the node that holds a turn.
type TurnAction int

// The actions.
const (
	_ TurnAction = iota
	// KeepTurn: the work is under way, or failed.
	KeepTurn
	// ReturnToService: the node ends the cordon of its turn, and keeps the turn.
	ReturnToService
	// AwaitService: the node must serve first.
	AwaitService
	// EndTurn: the next node may take it.
	EndTurn
)

// TurnProgress is the state of a turn, as its node knows it.
type TurnProgress struct {
	Work     TurnWork
	Cordoned bool   // the cordon in its record belongs to the turn
	Own      Record // of the node
	Votes    bool   // its member of etcd answers, or it runs none
}

// NextTurnAction decides the next action of the node with the turn.
func NextTurnAction(p TurnProgress) TurnAction {
	switch {
	case p.Work != TurnWorkDone:
		return KeepTurn
	case p.Cordoned:
		// Before the gate is asked: it is closed because of the cordon. A cordon of people is
		// theirs to end.
		return ReturnToService
	case p.Own.ID != "" && !p.Own.MayServe():
		// People took the controller role: it never serves, and the others would wait for it for ever.
		return EndTurn
	case !p.Own.Serves() || p.Own.Presence.Reason == Overridden || !p.Votes:
		// An override ends, and the node would be out again, in the turn of the next one.
		return AwaitService
	default:
		return EndTurn
	}
}
