// Package soak runs a whole control plane of real processes through upgrades,
// rollbacks and faults that a seed chooses. It records everything that happens,
// and package judge checks the record against the invariants
// (docs/protocol.md#invariants). docs/soak.md describes the soak and how to repeat
// a run.
package soak
