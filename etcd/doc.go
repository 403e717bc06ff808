// Package etcd is the machinery between the sidecar and etcd. It decides nothing of the
// protocol, and knows no keys except their prefix: it writes only keys that callers name. The
// topics:
//
//   - client.go: requests with a time limit. The client knows whether etcd answers,
//     and notices when the store went back (docs/protocol-nodes.md#went-back)
//   - failover.go: which server is asked; one that cannot serve is left for another.
//     link.go: the connection to one. credentials.go: its certificates, read again when they change
//   - patience.go: how long an attempt may take. newleader.go: ends attempts that are in vain because
//     etcd has a new leader
//   - check.go: compares what the watches reported with a linearizable read
//   - session.go: a lease that is kept alive. Its holder learns in time that it may
//     no longer exist (docs/protocol.md#sessions). share.go: several parts of a sidecar on one lease.
//     lease.go: what a lease has left
//   - watch.go: all keys under a prefix, listed and watched without a gap
//   - unchanged.go: repeats a change until what it read still held when it was written
//   - servers.go: the versions of the etcd servers, and their known faults
//   - membership.go, memberpage.go: the members of the etcd cluster, and what one reports of itself
//   - snapshot.go: the whole store. space.go: what to do when a database is full
//   - diagnose.go: the fault of each server, with its remedy. commandflags.go: the flags of a
//     command that people type
//   - observe.go: what metrics learn of each request
//
// The client library's Session, Election and Watch are not enough. Their requests have no time
// limit, they notice a lost lease late, and a watch on a member that lost its peers is silent
// (docs/upstream.md#etcd-leases).
//
// Constructors start nothing. Goroutines run only inside WithSession and Follow,
// which wait for them. KeepChecking blocks until its context ends.
package etcd
