// Package etcd is the machinery between the sidecar and etcd. It decides nothing of the
// protocol, and knows no keys except their prefix. Each file treats one topic:
//
//   - client.go: requests with a time limit. The client knows whether etcd answers,
//     and notices when the store went back (docs/protocol-nodes.md#went-back)
//   - endpoints.go: which server is asked; one that cannot serve is left for another.
//     link.go: the connection to one
//   - check.go: compares what the watches reported with a linearizable read
//   - session.go: a lease that is kept alive. Its holder learns in time that it may
//     no longer exist (docs/protocol.md#sessions)
//   - watch.go: all keys under a prefix, listed and watched without a gap
//   - servers.go: the versions of the etcd servers, and their known faults
//
// The client library's Session, Election and Watch are not enough. Their requests have no time
// limit, they notice a lost lease late, and a watch on a member that lost its peers is silent
// (docs/upstream.md#etcd-leases).
//
// Constructors start nothing. Goroutines run only inside WithSession and Follow,
// which wait for them. KeepChecking blocks until its context ends.
package etcd
