// Package fleet owns the node records, presences, turns, notices of duplicate node IDs and
// the store ID in etcd: no other package writes their keys. Package protocol defines their
// meaning. The topics:
//
//   - register.go: this node registers, and keeps its record current
//     (docs/protocol-nodes.md#registration)
//   - presence.go: a key on a lease shows that this sidecar runs, and detects a
//     second sidecar with the same node ID (docs/protocol-nodes.md#duplicate-ids)
//   - expiry.go: this node closes its gate before leaders ignore its record
//     (docs/protocol-nodes.md#dead-nodes); package election measures how long other
//     nodes' presences have been missing
//   - storeid.go: the ID that distinguishes stores (docs/protocol.md#store-id)
//   - storekeys.go, storedelete.go: read and delete all keys of a store, for `sidecar store`
//   - follow.go: the newest observation of all records and presences; snapshot.go: a
//     linearizable read of them (docs/protocol.md#snapshots)
//   - clocks.go: how far the clocks of other nodes differ (docs/protocol-nodes.md#clocks)
//   - cordon.go: people take a node out of service for a while
//   - turns.go, turnend.go, turnlock.go: a few nodes at a time are out of service, by turns
//     (docs/protocol-nodes.md#turns)
//   - retirer.go, retire.go: a node that stops deletes its ephemeral record
//     (docs/protocol-nodes.md#ephemeral)
//   - remove.go: people and leaders delete records of other nodes
//   - admin.go: the other reads and writes of `sidecar node`
//   - codec.go, decode.go, turncodec.go: the values of the keys. Package election
//     writes the rollback
//
// Sessions, the leases below presences, are in package etcd.
//
// Constructors start nothing. Each Run blocks until its context ends, and waits
// for the goroutines that it started.
package fleet
