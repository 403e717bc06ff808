package election

import "errors"

// ErrLostLeadership says that the leader's key is no longer this sidecar's.
var ErrLostLeadership = errors.New("leadership lost")
