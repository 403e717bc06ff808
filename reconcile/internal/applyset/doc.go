// Package applyset says which objects belong together, and how each shows its origin. It owns
// the identity of a set, the stamp on each object, the set's parent object with the mark, and
// the epoch policy.
//
// The package is pure: it encodes, decodes and compares. Package exec sends the requests. The
// form follows ApplySets (KEP-3659), so that kubectl can list and prune a set. The meaning of
// stamps and of the mark is part of the protocol: docs/protocol-objects.md#stale-writes.
//
// It starts no goroutine.
package applyset
