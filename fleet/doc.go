// Package fleet owns the node records and the presences in etcd. Package protocol defines their
// meaning. Each file treats one topic:
//
//   - register.go: this node registers, and keeps its record current
//     (docs/protocol-nodes.md#registration)
//   - presence.go: a key on a lease shows that this sidecar runs, and detects a
//     second sidecar with the same node ID (docs/protocol-nodes.md#duplicate-ids)
//   - expiry.go: this node closes its gate before leaders ignore its record
//     (docs/protocol-nodes.md#dead-nodes); package election measures how long other
//     nodes' presences have been missing
//   - storeid.go: the ID that distinguishes stores (docs/protocol.md#store-id)
//   - storedelete.go: deletes the keys of a store, for `sidecar store delete`
//   - follow.go: the newest observation of all records and presences
//     (docs/protocol.md#snapshots)
//   - admin.go: the reads and writes of `sidecar node`
//
// Sessions, the leases below presences, are in package etcd.
//
// Constructors start nothing. Each Run blocks until its context ends, and waits
// for the goroutines that it started.
package fleet
