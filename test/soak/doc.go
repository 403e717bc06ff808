// Package soak runs a whole control plane, of real processes, through upgrades,
// rollbacks and faults that a seed chooses, and records all that happens. Package
// judge then checks the record against the invariants (docs/protocol.md#invariants).
// docs/soak.md says what the soak does and how to repeat a run.
package soak
