// Package status owns the status key in etcd and the readiness gate
// (docs/protocol.md#keys, docs/protocol-nodes.md#gate). Store reads, watches and writes
// the key; no other package writes it, but a restored cluster begins without it. Gate derives a verdict from the
// registration and the status. Package protocol decides the meaning of a status.
// The code that renders /readyz acknowledges each verdict with Gate.Show (internal/role/doc.go
// has the diagram). Overrides follows the override file of this node.
//
// Constructors start nothing. Store.Run, Gate.Run and Overrides.Run block until their context
// ends, and wait for the goroutines that they started.
package status
