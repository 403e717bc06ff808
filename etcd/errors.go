package etcd

import "errors"

var (
	// ErrSessionLost is the cause of a session's context that ended because etcd
	// no longer knows the lease, or did not confirm it in time.
	ErrSessionLost = errors.New("session lost")
	// ErrNoProgress is the cause of a session's context that ended because its
	// holder did not call Beat for two TTLs.
	ErrNoProgress = errors.New("session holder made no progress")
	// ErrChanged is returned by Write and CheckWith if one of their conditions does not hold: another
	// client changed a key since it was read.
	ErrChanged = errors.New("the key has changed since it was read")
)

// unsentError is the error of a request that was never sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }
