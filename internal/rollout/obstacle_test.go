package rollout

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestSimulate_obstacles(t *testing.T) {
	runSimulations(t, []simulationCase{
		{"the next one before this one is done", Input{Fleet: rollingFleet("1.1.0", "1.1.0", "1.0.0"), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.2.0", "1.1.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
UpgradeUnderWay : the previous upgrade is not complete (upgradeReady is false): an upgrade is in progress: c runs release 1.0.0, a, b run 1.1.0; upgrade c
`},
		{"an upgrade that has begun", Input{Fleet: with(rollingFleet("1.0.0", "1.1.0", "1.0.0"), 1, func(r *protocol.Record) { r.Node.MinReconciler = rel("1.0.0") }), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, b leads
`},
		{"a dead node blocks", Input{Fleet: with(three(), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
NodeDead c: it is not alive; start it again, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: a waits for c; c: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"a dead node that may be passed over", Input{Fleet: with(three(), 2, func(r *protocol.Record) {
			dead(r)
			r.Node.ExpireAfter = 10 * time.Minute
		}), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [a] then [a b], DONE 1.1.0 min 1.1.0, a leads
NodeDead c: it is not alive; start it again, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"a corrupt record", Input{Fleet: with(three(), 2, func(r *protocol.Record) { r.Problem, r.Alive = "it is not a node record", false }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
RecordCorrupt c: its record is corrupt: it is not a node record; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: a waits for c; c: its record is corrupt: it is not a node record; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"a node that withdrew", Input{Fleet: with(three(), 0, func(r *protocol.Record) { r.Presence.Election = protocol.Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "0.0.0")}, `
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
NodeWithdrawn a: its sidecar cannot work with its kube-apiserver, and has withdrawn from the election: the sidecar status of that node says why; repair that first
`},
		{"all withdrew", Input{Fleet: with(rollingFleet("1.0.0"), 0, func(r *protocol.Record) { r.Presence.Election = protocol.Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [] then [a], DONE 1.0.0 min 0.0.0,  leads
NoLeader : no node leads
NodeWithdrawn a: its sidecar cannot work with its kube-apiserver, and has withdrawn from the election: the sidecar status of that node says why; repair that first
Unfinished : all live nodes have the bundle, and the objects are still not at it: no node may lead
`},
		{"a node that is not ready already", Input{Fleet: with(three(), 2, func(r *protocol.Record) { r.Presence.Ready, r.Presence.Reason = false, protocol.Starting }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b] then [a b], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
GateClosed c: its gate is closed (Starting), and the upgrade would close a second gate: see GATE in the sidecar status of that node
`},
		{"all that are alive have it", Input{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.1.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
NodeDead c: its record has release 1.0.0, so the rollout cannot complete: it is not alive; start it again, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"all have it, and it waits", Input{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "1.1.0")}, `
NodeDead c: its record has release 1.0.0, so the rollout cannot complete: it is not alive; start it again, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: b waits for c; c: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"the status is garbage", Input{Fleet: three(), Status: garbage, Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
StatusCorrupt : the reconciler status cannot be decoded (garbage); the leader rebuilds it: check it with sidecar status, then plan again
`},
		{"no status yet", Input{Fleet: three(), Status: noStatus, Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
UpgradeUnderWay : the previous upgrade is not complete (upgradeReady is false): there is no status: no leader has finished the first reconciliation, or the status was lost
`},
	})
}
