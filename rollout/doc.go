// Package rollout simulates a rolling upgrade before it happens: the decisions
// behind `sidecar plan` and `sidecar bundle validate --from`. It makes no
// decision of its own. It calls the functions of package protocol on a fleet in
// memory, so it cannot disagree with what the sidecars do. It has no I/O, no
// clock and no goroutine; the caller reads the facts.
//
//	Simulate      rolls a bundle out over a fleet, one node after the other
//	Forecast      what came of it: the moves, who was ready meanwhile, obstacles
//	Deadlock      why a release cannot roll over another (docs/protocol.md#releases-that-can-roll)
//	RollbackRisk  what an upgrade takes away from the way back
package rollout
