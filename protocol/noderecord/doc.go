// Package noderecord decides what a sidecar does with its node's record and presence: when it writes the record, when it
// gives up its node ID, when the record is deleted, and what another node's presence says about clocks
// (docs/protocol-nodes.md#registration). It is pure, as package protocol is. Packages fleet and election carry the
// decisions out.
//
// The code of each part of the specification:
//
//	#registration  RecordMatches registration.go does a record describe what this sidecar runs
//	               MustRegister  registration.go must this sidecar write its record again
//	#ephemeral     Retire        ephemeral.go    does a sidecar that stops delete its record
//	               DeletionsDue  ephemeral.go    which records does a leader delete
//	#duplicate-ids MustYieldID   duplicate.go    must this sidecar give up its node ID
//	#clocks        ClockOffset   clocks.go       do two clocks differ
package noderecord
