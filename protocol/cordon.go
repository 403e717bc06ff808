package protocol

import (
	"fmt"
	"time"
)

// Cordon is the part of a node's record by which people take the node out of service
// (docs/protocol-nodes.md#cordons). The zero value: the node is in service.
type Cordon struct {
	Since   time.Time // when it was written, by the writer's clock
	Until   time.Time // when it ends, by the node's clock; zero: when people end it
	Message string    // why, in people's words; may be empty
	By      string    // the user and the machine, like root@cp-1; empty: unknown
	Turn    bool      // it belongs to a turn, which ends it (docs/protocol-nodes.md#turns)
}

// MaxCordonMessage is the limit of Cordon.Message, in bytes.
const MaxCordonMessage = 256

// On reports whether the node is out of service. A cordon that is over counts until the
// node's sidecar deletes it from the record: so no two clocks are compared.
func (c Cordon) On() bool { return c != Cordon{} }

// Over reports whether the node's sidecar must delete the cordon.
func (c Cordon) Over(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// String says how long the cordon lasts, and why, for people.
func (c Cordon) String() string {
	text := "until an operator ends it"
	if c.Turn {
		text = "for its turn"
	}
	if !c.Until.IsZero() {
		text = "until " + c.Until.UTC().Format(time.RFC3339)
	}
	if c.Message != "" {
		text += fmt.Sprintf(" (%s)", c.Message)
	}
	if c.By != "" {
		text += ", by " + c.By
	}
	return text
}

// Remedy is the command that ends the cordon of a node.
func (c Cordon) Remedy(id NodeID) string {
	if c.Turn {
		return "sidecar turn end " + string(id)
	}
	return "sidecar uncordon " + string(id)
}

// InService reports whether clients of the API can use a node: its sidecar is alive and
// reports a ready gate, and the node is not cordoned. The presence may be a moment older
// than the record. A cordon does not close a gate that is open by an override
// (docs/protocol-nodes.md#overrides).
func (r *Record) InService() bool {
	return r.AliveController() && r.Presence.Ready && (!r.Node.Cordon.On() || r.Presence.Reason == Overridden)
}

// Serves reports whether a node is in service and its kube-apiserver is ready, as far as
// the presence shows it. It is the answer of /readyz of the node's sidecar.
func (r *Record) Serves() bool { return r.InService() && !r.Presence.down() }

// WhyServes returns the reason why a node that is alive serves or not, and the sidecar's
// message if the gate is not the reason.
func (r *Record) WhyServes() (Reason, string) {
	if r.InService() && r.Presence.down() {
		return r.Presence.NotReady()
	}
	return r.Presence.Reason, ""
}

// down reports whether the kube-apiserver of a node is not ready (--apiserver-readyz).
// Sidecars of older releases report that only in the endpoint.
func (p Presence) down() bool { return p.APIServerDown || p.Endpoint.Down }

// NotReady returns why the kube-apiserver of a node is not ready, as its sidecar reports it.
func (p Presence) NotReady() (Reason, string) {
	for _, w := range p.Warnings {
		if w.Subject == "" && (w.Reason == APIServerNotReady || w.Reason == APIRefused) {
			return w.Reason, w.Message
		}
	}
	return APIServerNotReady, "its kube-apiserver is not ready (--apiserver-readyz)"
}

// JudgeCordon reports whether a node may be cordoned without --force: any but the last
// one in service. relies is the node whose record and presence must not change before
// the cordon is written; nil: none (docs/protocol-nodes.md#cordons).
func JudgeCordon(f Fleet, id NodeID) (relies *Record, allowed bool) {
	own, found := f.Record(id)
	if !found || !own.InService() {
		return nil, true
	}
	for _, r := range f.Records {
		byItself := r.Presence.Reason != Overridden // an override ends
		if r.ID != id && r.Serves() && byItself {
			return r, true
		}
	}
	return nil, false
}
