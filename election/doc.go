// Package election elects the one sidecar that writes, and runs the leader's loop
// (docs/protocol.md#eligibility, docs/protocol.md#leader-rules). protocol.Next
// decides the leader's next step; the guards that it returns decide which status
// may be written.
//
// It writes the candidates' keys, the rollback and the replacement. The leader
// writes the status with package status, which deletes the replacement with it,
// and deletes expired records with package fleet.
//
// The etcd client library's own Election is not used: a candidate whose lease
// ended can be declared leader, and an orphaned key can block an election for ever
// (docs/upstream.md#etcd-election). The keys use the same layout, so that the
// library's tools can read them.
//
// Not guaranteed: that a deposed leader notices before the next one is elected.
// Guards, the lease's deadline on the monotonic clock and the content epoch make
// that harmless (docs/protocol.md#why-it-is-safe).
//
// Run is one goroutine, and two more in every sidecar: one follows the queue of
// candidates, the other ends a rollback that is over (rollback.go). A leader runs
// another for its job: a survey, a pass, or keeping the objects as the last pass
// left them.
package election
