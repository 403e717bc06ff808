// Package reconcile makes the objects in the Kubernetes API those of a bundle
// (DESIGN 6). It carries out what the leader decided (protocol.Work), and owns
// the objects of its set, their stamps, and the set's parent object with the
// mark. When and by whom a pass is made is for package election; what a bundle
// is, for package bundle.
//
// A pass (Reconciler.Reconcile) repeats three steps until nothing is left to do:
//
//	gather   the parent with the mark, and each kind of the set, listed once (gather.go)
//	decide   what each object needs, and what may be removed (plan.go, compare.go, prune.go)
//	execute  wave by wave, each write with its preconditions (apply.go, recreate.go, remove.go)
//
// A pass over objects that are as they should be ends after the first list and
// writes nothing. After writes, the list that finds nothing to do is the "last
// list" of DESIGN 6.4.
//
// What keeps a stale leader from doing harm: before each write the lease is
// checked, and no request outlives it; updates carry uid and resourceVersion,
// deletions carry both as preconditions, creations are POSTs; and no object that
// bears a higher content epoch is touched. Behind that stands the fence, an
// admission policy in every set, by which the API server itself refuses updates
// that would bring older content back (fence.go). It is written before all else.
// What none of this holds, and a wait has to: docs/bundles.md.
//
// Between passes Keep watches what the last one left (DESIGN 6.5):
//
//	hear     each kind of the set and the parent, by metadata alone (follow.go)
//	judge    whether a change is ours to put right, without a request (drift.go)
//	repair   one apply with the applier of the passes, or a full pass is due (keep.go)
//
// and counts who keeps changing what (fight.go).
//
// Goroutines run only inside of Reconcile, Keep and Survey, which wait for them.
package reconcile
