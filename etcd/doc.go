// Package etcd is the machinery between the sidecar and etcd: a client that
// knows how fresh its view is, sessions whose lease is reckoned by the own
// monotonic clock, and watches that leave no gap. It owns the layout of the
// keys (DESIGN section 3) and decides nothing of the protocol.
//
// It exists because the client library's Session, Election and Watch are not
// enough as they come (DESIGN 4.6, FACTS 1): grants without a time limit, an
// expiry noticed late, watches that hang on a cut-off member.
//
// Goroutines run only inside WithSession and Follow, which wait for them.
package etcd
