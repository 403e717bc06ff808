package election

import "errors"

var (
	// ErrJobStuck says that a survey or a pass did not end although it was
	// cancelled. Run returns it and does not campaign again: the program must
	// exit, since a job that writes to the API can no longer be stopped.
	ErrJobStuck = errors.New("a pass does not end although it was cancelled")
	// ErrNotDue is for an Applier to wrap: the pass was not possible, but the API
	// was reachable. The leader tries again and does not yield
	// (docs/protocol.md#yielding).
	ErrNotDue = errors.New("not now")

	// ErrNotReplaceable says that the objects of a bundle cannot be replaced as people
	// asked.
	ErrNotReplaceable = errors.New("not replaced")

	// ErrNotRollable says that the objects cannot go back as people asked.
	ErrNotRollable = errors.New("no rollback begun")

	// errNoPresence says that this node's presence was not in etcd.
	errNoPresence = errors.New("no presence")
	// errLostLeadership says that the leader's key no longer belongs to this
	// sidecar.
	errLostLeadership = errors.New("leadership lost")
	// errWentBack says that the store went back, as after a restore from a backup.
	errWentBack = errors.New("etcd went back to an older revision, and what this leader knew of it is void")
)
