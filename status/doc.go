// Package status owns the status key in etcd and the readiness gate
// (docs/protocol.md#keys, docs/protocol.md#gate). Store reads, watches and writes
// the key; no other package writes it. Gate makes a verdict of the registration
// and the status. What a status means is decided in package protocol.
//
// Constructors start nothing. Store.Run and Gate.Run block until their context
// ends, and wait for the goroutines that they started.
package status
