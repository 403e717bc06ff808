// Package exec sends the requests of a pass: it reads the live objects, and writes objects,
// removals and the parent. Package plan decides which; package reconcile decides in which
// order.
//
// Three rules keep a stale leader from doing harm (docs/protocol-objects.md#stale-writes).
// The lease is checked before each request, and no request outlives it. Updates
// carry uid and resourceVersion, deletions carry both as preconditions, and
// creations are POSTs. No object with a higher content epoch is changed.
//
// Every request that can be repeated is repeated by the one loop in retry.go.
//
// Goroutines run only inside of its calls, which wait for them.
package exec
