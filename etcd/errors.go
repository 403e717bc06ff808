package etcd

import "errors"

var (
	// ErrSessionLost is the cause of a session's context that ended because the
	// lease is gone, or may be: etcd said so, or it could not be confirmed in
	// time.
	ErrSessionLost = errors.New("session lost")
	// ErrNoProgress is the cause of a session's context that ended because its
	// holder did not call Beat for too long.
	ErrNoProgress = errors.New("session holder made no progress")
)
