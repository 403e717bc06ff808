package nodes

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// cordonReport is the output of `cordon` and `uncordon`.
type cordonReport struct {
	Node     string     `json:"node"`
	Cordoned bool       `json:"cordoned"`
	Until    *time.Time `json:"until"` // null: until an operator ends it
	Alive    bool       `json:"alive"`
	Ready    bool       `json:"ready"`    // the gate, as the node reports it
	Reason   string     `json:"reason"`   // of the gate; empty: not known
	Election string     `json:"election"` // empty: not known
	Message  string     `json:"message"`  // the sentence that is printed without -o json
}

func newCordonReport(r protocol.Record, c protocol.Cordon, message string) cordonReport {
	out := cordonReport{Node: string(r.ID), Cordoned: c.On(), Alive: r.Alive, Message: message}
	if r.Alive {
		out.Ready, out.Reason, out.Election = r.Presence.Ready, string(r.Presence.Reason), string(r.Presence.Election)
	}
	if !c.Until.IsZero() {
		out.Until = &c.Until
	}
	return out
}
