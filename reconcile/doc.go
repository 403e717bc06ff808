// Package reconcile brings the objects of a bundle into the Kubernetes API. It carries out the
// leader's decision (protocol.Work). It owns the objects of its set, their stamps, and the
// set's parent object with the mark. Package election decides when a pass is made, and by which
// node. Package bundle defines bundles.
//
// A pass (Reconciler.Reconcile) repeats three steps until nothing is left to do:
//
//	observe  the parent with the mark, and each kind of the set, listed once (observe.go)
//	decide   which objects to write, and which may be removed (package plan)
//	execute  wave by wave, each write with its preconditions (package exec)
//
// A pass over objects that are all in place ends after the first list, and writes
// nothing. After writes, the list that finds nothing to do is the "last list"
// (docs/protocol-objects.md#apply).
//
// Three things keep a stale leader from doing harm: the lease, the preconditions of each write,
// and the epoch policy, by which the API server itself refuses older content
// (docs/protocol-objects.md#stale-writes). The epoch policy is written before all other objects.
// docs/bundles.md lists the writes that none of them can refuse, so that a leader must wait.
//
// Between passes, Keep watches the objects of the last pass, and repairs the changes of other
// writers (docs/protocol-objects.md#drift). One apply is enough for each change, or a full pass is due.
//
// The rooms below, each of which imports only those further down:
//
//	internal/drift      watches, changes between passes, fights
//	internal/preview    a simulated pass, by dry runs
//	internal/exec       requests within the lease, with one retry loop
//	internal/plan       which objects to write, and which may be removed
//	internal/applyset   our data on objects: stamp, mark, parent, epoch policy
//	internal/ownership  managedFields: who owns which field
//
// Goroutines run only inside of Reconcile, Keep, Survey and Preview, which wait
// for them.
package reconcile
