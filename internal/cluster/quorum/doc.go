// Package quorum changes the members of an etcd cluster that the sidecars run
// themselves (docs/clusters.md). It owns the records of the members, and the lock
// under which they change. The files:
//
//   - lock.go: the lock, so that one change follows the other
//   - add.go: adds a node as a learner, which receives the log and does not vote
//   - keeper.go: in the sidecar of etcd's leader, makes a learner a voter when it
//     is caught up, and removes one that makes no progress
//   - remove.go: removes a member that an operator names
//   - view.go: the members as commands show them
//
// Every change can be repeated: after a request that was not answered, the members are
// listed again.
//
// Only Keeper.Run and List start goroutines, and wait for them.
package quorum
