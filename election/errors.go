package election

import "errors"

var (
	// ErrLostLeadership says that the leader's key is no longer this sidecar's.
	ErrLostLeadership = errors.New("leadership lost")
	// ErrWedged says that a pass did not end although it was cancelled. A
	// program with a writer loose must end: Run returns it and does not go on.
	ErrWedged = errors.New("a pass does not end though it was cancelled")
	// ErrNotDue is for an Applier to wrap: the pass could not be done, but not
	// because the API is out of reach. It is tried again, and is no reason to
	// yield (DESIGN 4.7).
	ErrNotDue = errors.New("not now")

	// errWentBack says that the store went back, as after a restore from a
	// backup, while it was read: look again.
	errWentBack = errors.New("the store went back while it was read")
)
