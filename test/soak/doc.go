// Package soak runs a whole control plane, of real processes, through upgrades,
// rollbacks and faults that a seed chooses, records all that happens, and has it
// judged by the invariants of DESIGN 4.11 (package judge). docs/soak.md says what
// it does and how a run is repeated.
package soak
