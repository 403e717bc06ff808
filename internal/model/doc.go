// Package model is a model checker for the protocol. It puts the production
// functions of package protocol (Eligible, Next, Judge, Blockers, Drain) into an
// abstract world and visits every state that this world can reach. After each
// transition it checks the invariants (docs/protocol.md#invariants).
//
// # The world
//
//   - An etcd with the status, the node records, the presences and the leader's
//     key. Its transactions check the guards of status.Store.Write.
//   - A Kubernetes API with a few objects, the mark and the inventory. Each object
//     carries a stamp. An object can be the same in each content, differ, be created
//     again because it cannot be changed, or be dropped by a later release.
//     With Config.Stores, the leader of another store writes to it, too. With
//     Config.Strangers, users write stamps on objects.
//   - Nodes. They start, register and become ready. They read the status
//     linearizably, or receive it late from a watch. They move to another
//     release in either direction, are killed, and lose their leases without
//     noticing.
//   - Leaders, whose steps are not atomic. A leader takes a snapshot, decides,
//     and writes later. A pass lists, writes the mark, writes one object after
//     another, lists again and finishes the mark. Its requests may land after
//     their sender has stopped, lost its leadership or died.
//
// # Reading the code
//
// world.go defines the state, translate.go translates it to the values of package
// protocol, and safeguards.go lists the rules that a search can turn off. moves.go lists
// the moves; nodes.go, leader.go, survey.go, pass.go, api.go, keep.go, removals.go,
// expiry.go, stores.go, strangers.go, withdraw.go, restored.go and faults.go carry
// them out. invariants.go checks a transition. search.go visits all states,
// progress.go follows every run to its end, walk.go walks at random, and story.go explains a violation.
//
// The members of an etcd that the sidecars run are a world of their own, in
// membership.go, membershipnode.go and membershipsearch.go. So is the Service kubernetes, in endpoints.go
// and endpointssearch.go. So are turns, in turns.go and turnssearch.go.
//
// # Folded states
//
// States that differ only in which node is which are one state. Revisions and
// epochs are only ever compared, so a state holds the result of the comparison
// and not the number: the key still has this guard's revision, the
// object still has this request's resourceVersion. Content epochs are
// numbers, since leaders count with them. They are shifted so that the lowest is
// 1, and a gap above three counts as three.
//
// # Not in the model
//
// Time: each delay can last forever, and a lease can expire at any
// moment. With Config.Expire, one move is possible only while clocks agree well
// enough. With Config.Restore, a restore takes longer than a lease and a request
// live. Also missing: duplicate node IDs, and a user who changes the mark. Of the
// statuses that a lagging node missed, the model keeps only one that would open
// its gate.
//
// The exhaustive search compares fingerprints of 64 bits. In a search of ten
// million states, two of them share one with a probability of 3 in a million.
//
// The package has no goroutines and no I/O. It imports packages protocol and publish, and
// package trace, which holds its leaders to the rules of those that ship.
package model
