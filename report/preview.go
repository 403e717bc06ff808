package report

import "fmt"

// Action is the step of a pass for an object.
type Action string

// The actions of a preview.
const (
	ActionCreate   Action = "created"
	ActionChange   Action = "changed"
	ActionRecreate Action = "recreated" // deleted and created again: a field is immutable
	ActionPrune    Action = "pruned"    // when the removals are due (docs/protocol-objects.md#removals)
	ActionHold     Action = "held"      // would be pruned, if no brake were on
	ActionNone     Action = "unchanged"
	ActionFail     Action = "failed"
)

// Actions lists all actions, in the order in which people want to read them.
func Actions() []Action {
	return []Action{ActionFail, ActionCreate, ActionChange, ActionRecreate, ActionPrune, ActionHold, ActionNone}
}

// Previewed is one object and the action of a pass for it.
type Previewed struct {
	Group, Kind, Namespace, Name string

	Action   Action
	Message  string // why it fails, is held or recreated, or could not be checked; empty: nothing to report
	Required bool   // its failure keeps the status from becoming DONE
	// Live and Wanted are the object before and after, without fields that only the server or
	// Lockstep itself sets, and without a Secret's contents; nil: it does not exist.
	Live, Wanted map[string]any
}

// String reads like `ClusterRole "x"` or `ConfigMap "ns/x"`.
func (o Previewed) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", o.Kind, name)
}

// Preview is a simulated pass over a bundle.
type Preview struct {
	Bundle  string      // the name of this bundle
	Objects []Previewed // in the order of writing, removals last
	// PruneHeld is why objects that the bundle dropped would not be removed;
	// empty: nothing keeps them.
	PruneHeld string
	// Replaces is the bundle of another name whose objects this one would replace; empty: none.
	Replaces string
	// PruneImmediately: removals do not wait for controllers of older releases.
	PruneImmediately bool
}

// Count returns the number of objects with an action.
func (p Preview) Count(a Action) int {
	n := 0
	for _, o := range p.Objects {
		if o.Action == a {
			n++
		}
	}
	return n
}
