package reconcile

// verb is what was done to an object. It labels metrics.
type verb string

const (
	verbNone     verb = "none" // it was as wanted
	verbCreate   verb = "create"
	verbApply    verb = "apply"
	verbRecreate verb = "recreate"
	verbDelete   verb = "delete"
)

func verbs() []verb { return []verb{verbCreate, verbApply, verbRecreate, verbDelete} }
