// Package rollout simulates a rolling upgrade before it happens: the decisions
// behind `sidecar plan` and `sidecar bundle validate --from`. It makes no
// decision of its own. It calls the functions of package protocol on a fleet in
// memory, so it cannot disagree with what the sidecars do. It does no I/O,
// reads no clock and starts no goroutine; the caller reads the facts.
//
//	Simulate      rolls a bundle out over a fleet, one node after the other
//	Forecast      the result: the moves, who was ready meanwhile, obstacles
//	Deadlock      why a release cannot roll over another (docs/protocol.md#releases-that-can-roll)
//	RollbackRisk  why the way back would be an outage
package rollout
