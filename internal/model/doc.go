// Package model checks the protocol as a whole: it puts the production
// functions of package protocol (Admits, Judge, Eligible, Next, Blockers,
// Registers, the mark and the statuses) into an abstract world and walks
// through everything that can happen there (DESIGN 4.11).
//
// # The world
//
// An etcd with the status, the node records, the presences and the leader's
// key, and transactions with the guards that status.Store.Write has. A
// Kubernetes API with a few objects, each with the stamp of the content that
// brought it, and with the mark. Nodes that start, register, read the status
// linearizably or are told of it late, become ready, are moved to another
// release in either direction, are killed, and lose their leases without
// knowing it. Leaders whose steps are not atomic: a snapshot, a decision, and
// later the write; a pass that lists, writes the mark, writes one object after
// another, lists again and finishes the mark, and whose requests may land after
// their sender has stopped, was deposed, or is gone.
//
// # What is folded
//
// Nodes are symmetric: states that differ only in which node is which are one
// state. Revisions and epochs appear only in comparisons, so the state holds
// their outcome (a guard's revision is still the key's, a request's
// resourceVersion is still the object's) and no numbers. Content epochs are
// numbers, for leaders count with them; all are moved so that the lowest is 1,
// and gaps above three count as three.
//
// # What is not there
//
// Time: whatever may take long may take for ever, and a lease may expire at any
// moment. Where records expire (Config.Expire), that clocks agree well enough is
// a condition of a move. Roles, twins, leaders without an API, removals of
// objects and restored backups. A node that lags sees, of the statuses that it
// missed, one that would open its gate: the one that matters. The exhaustive
// search rests on fingerprints of 64 bits: that two of ten million states share
// one has a probability of 3 in a million.
//
// The package has no goroutines and no I/O. It imports package protocol alone.
package model
