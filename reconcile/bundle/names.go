package bundle

// Annotations with which a manifest chooses how Lockstep treats its object.
const (
	// AnnotationRequired: "false" lets the status become DONE although the object
	// failed.
	AnnotationRequired = "lockstep.dev/required"
	// AnnotationRecreate chooses the way to change an immutable field. "disabled" forbids to
	// delete and create the object again. "enabled" allows it for the kinds that are otherwise
	// never recreated.
	AnnotationRecreate = "lockstep.dev/recreate"
	// AnnotationPrune: "disabled" keeps the object when a later bundle drops it.
	// CustomResourceDefinitions and Namespaces are removed only with "enabled".
	AnnotationPrune = "lockstep.dev/prune"
)

// Annotations of the stamp, which Lockstep writes on each object: which content
// brought the object's present form (docs/protocol-objects.md#stale-writes).
const (
	// AnnotationContentEpoch is the content epoch, a decimal number from 1 up.
	AnnotationContentEpoch = "lockstep.dev/content-epoch"
	// AnnotationRelease is the release of that content.
	AnnotationRelease = "lockstep.dev/release"
	// AnnotationMinAPIServerRelease is the minApiserverRelease of that content.
	AnnotationMinAPIServerRelease = "lockstep.dev/min-apiserver-release"
	// AnnotationForm is the hash of the manifest. It shows whether a manifest changed between
	// two contents. The object alone cannot show it, because servers normalize the objects that
	// they store. An object that is the same in both contents keeps its stamp, so a change of
	// one object writes one object.
	AnnotationForm = "lockstep.dev/form"
)

// AnnotationStore is the store ID, on the parent (docs/protocol-objects.md#stores).
const AnnotationStore = "lockstep.dev/store"

// StampAnnotations returns the annotations of the stamp, in a fixed order.
func StampAnnotations() []string {
	return []string{AnnotationContentEpoch, AnnotationRelease, AnnotationMinAPIServerRelease, AnnotationForm}
}

// ChoiceAnnotations returns the annotations with which a manifest chooses, in a fixed
// order.
func ChoiceAnnotations() []string {
	return []string{AnnotationRequired, AnnotationRecreate, AnnotationPrune}
}

// Names of the ApplySet specification (KEP-3659), by which kubectl knows which objects belong
// together. LabelPartOf is on each object of the set, the others are on the set's parent.
const (
	LabelPartOf          = "applyset.kubernetes.io/part-of"
	LabelSetID           = "applyset.kubernetes.io/id"
	AnnotationTooling    = "applyset.kubernetes.io/tooling"
	AnnotationGroupKinds = "applyset.kubernetes.io/contains-group-kinds"
	AnnotationNamespaces = "applyset.kubernetes.io/additional-namespaces"
)

// reservedLabels returns the labels that a manifest may not set: with them it
// could join a set, or pretend to be the parent of one.
func reservedLabels() []string { return []string{LabelPartOf, LabelSetID} }
