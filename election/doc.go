// Package election elects the one writer and runs its loop (DESIGN 4.4 to 4.7).
// It owns the candidates' keys in etcd and the leader's progress; what the
// leader does next is decided by protocol.Next, what may be written to the
// status by the guards that it returns.
//
// The client library's Election is not used: a candidate whose lease is gone
// can be told that it leads, and an orphaned key can block an election for ever
// (FACTS 1.2). The keys are laid out like its own, so that its tools read them.
//
// What is not guaranteed: that a deposed leader notices before another is
// elected. That is what the guards, the lease's own deadline and the content
// epoch are for.
//
// Run is one goroutine; a leader has one more, for the job at hand: a survey, a
// pass, or what keeps the objects as the last pass left them.
package election
