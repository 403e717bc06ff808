package protocol

import (
	"fmt"
	"strings"
	"time"
)

// Override is the decision of people that a node serves in spite of its gate
// (docs/protocol-nodes.md#overrides). The zero value: there is none.
type Override struct {
	Until   time.Time // when it ends, by the node's clock
	Message string    // why, in people's words; may be empty
}

// MaxOverride is how long an override can last: it must not be forgotten.
const MaxOverride = 24 * time.Hour

// On reports whether there is an override.
func (o Override) On() bool { return o != Override{} }

// String says how long the override lasts, and why, for people.
func (o Override) String() string {
	text := "until " + o.Until.UTC().Format(time.RFC3339)
	if o.Message != "" {
		text += fmt.Sprintf(" (%s)", o.Message)
	}
	return text
}

// JudgeOverride decides whether an override that was written at a time is in force now.
// problem is why it is invalid, for people; empty: it is valid, or over.
func JudgeOverride(o Override, written, now time.Time) (inForce bool, problem string) {
	switch {
	case !o.Until.After(written):
		return false, "its end is not after the time at which the file was written"
	case o.Until.Sub(written) > MaxOverride:
		return false, fmt.Sprintf("it would last longer than %s after the file was written", MaxOverride)
	case written.After(now):
		return false, "the file was written in the future: was the clock set back?"
	}
	return now.Before(o.Until), ""
}

// overridden is the verdict of a gate that is open by an override alone. It does not open
// a gate that is closed because the kube-apiserver stops, or because people decided in
// another way that this node runs none.
func overridden(v Verdict, f Facts) Verdict {
	o := f.Override
	if !o.On() || v.Ready {
		return v
	}
	switch v.Reason {
	case ShuttingDown, DuplicateNodeID, NotController, ServicesNotReady:
		return v
	default:
		if f.Services != "" { // another reason came first
			return Verdict{Reason: ServicesNotReady, Message: f.Services + "; the override does not open the gate while that is so"}
		}
		return Verdict{Ready: true, Reason: Overridden, Message: fmt.Sprintf(
			"AN OPERATOR HAS OVERRIDDEN THE GATE %s: this node serves although the gate is closed: %s: %s; to end that: %s",
			o, v.Reason, v.Message, endOverride)}
	}
}

// endsThere precedes the command in the warning of a node with an override.
const endsThere = "type there: "

// WarnsOfOverride is the warning of a node with an override. The end of its command is flag: its --override-file.
func WarnsOfOverride(o Override, flag string) Warning {
	return Warning{Reason: Overridden, Message: "AN OPERATOR HAS OVERRIDDEN THE GATE " + o.String() +
		": this node serves whatever the gate says; to end that, " + endsThere + endOverride + flag}
}

// endOverride is the command that ends the override of a node whose sidecar has the default --override-file.
const endOverride = "sidecar override end"

// EndsOverride says what people type to end the override of a node with these warnings, which can be of another
// machine: only that node knows its --override-file.
func EndsOverride(warnings []Warning) string {
	for _, w := range warnings {
		if _, command, found := strings.Cut(w.Message, endsThere+endOverride); found && w.Reason == Overridden {
			return endsThere + endOverride + command
		}
	}
	return endsThere + endOverride + ", with the --override-file of its sidecar"
}

// Admitted reports whether a node serves because its gate is open by itself, not by an
// override.
func (v Verdict) Admitted() bool { return v.Ready && v.Reason != Overridden }
