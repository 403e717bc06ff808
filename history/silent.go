package history

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// wentSilent is the message about a node that is missing and did not announce that.
const wentSilent = "it went silent without a goodbye: its sidecar was killed, or its machine or network failed"

// clocksApart is how far the clocks of the node and of the leader, which both wrote entries, may differ.
const clocksApart = 5 * time.Second

// NameSilent says in the entries about missing nodes which of them did not stop gracefully: a sidecar that stops writes that
// its gate closes. Only who reads all entries can say that, so no entry is stored so.
func NameSilent(all []Entry) {
	for i, e := range all {
		stopped := func(s stretch) bool { return announced(all, e.Node, s) }
		if e.Kind == Node && e.Reason == protocol.NoPresence && !slices.ContainsFunc(e.stretches(), stopped) {
			all[i].Message = wentSilent
		}
	}
}

// announced reports whether the sidecar of a node announced that it stops, before its node was missing.
func announced(all []Entry, node protocol.NodeID, missing stretch) bool {
	return slices.ContainsFunc(all, func(e Entry) bool {
		return e.Node == node && announces(e) && slices.ContainsFunc(e.stretches(), func(s stretch) bool {
			return s.From.Before(missing.From.Add(clocksApart)) && (s.open() || s.Until.After(missing.From))
		})
	})
}

// announces reports whether an entry says that a sidecar stops. Its gate may be closed before that.
func announces(e Entry) bool {
	if e.Kind != Gate && e.Kind != Sidecar {
		return false
	}
	return slices.ContainsFunc([]protocol.Reason{protocol.ShuttingDown, protocol.DuplicateNodeID}, func(stops protocol.Reason) bool {
		return e.says(string(stops))
	})
}
