// Package upgrade decides whether the next upgrade may start, and warns people of the obstacles that no node reports of
// itself (docs/protocol.md#upgrade-ready). It is pure, as package protocol is, whose status and fleet it reads. Package
// httpapi shows the answer, internal/show the warnings; internal/rollout asks the same of the fleet after an upgrade.
//
// The code of each part of the specification:
//
//	#upgrade-ready Judge          upgrade.go  may the next upgrade start, and why not
//	               VoterObstacles cost.go     which voters of etcd does it wait for
//	               Settled        settled.go  is the last upgrade complete
//	               Mismatch       mismatch.go which nodes of a release differ
//	               Warnings       warnings.go which obstacles does no node report of itself
package upgrade
