package kube

import (
	"errors"
	"fmt"
	"net"
)

// TransportError is the error of a request without an answer. Unless Unsent is set, the request
// may take effect later, or already did: read the object again before the next decision
// (docs/protocol-objects.md#stale-writes).
type TransportError struct {
	Unsent bool // there was no connection, or there were no credentials: nothing was sent
	Err    error
}

// Error begins with "kube-apiserver is unreachable".
func (e *TransportError) Error() string { return "kube-apiserver is unreachable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// transportError returns err as a TransportError. ended is the cause of the end of the
// request's context; nil: it did not end.
func transportError(ended, err error) error {
	if unsent, found := errors.AsType[*unsentError](err); found {
		return &TransportError{Unsent: true, Err: unsent}
	}
	if ended != nil {
		err = fmt.Errorf("no answer in time: %w", ended)
	}
	var dial *net.OpError
	return &TransportError{Unsent: errors.As(err, &dial) && dial.Op == "dial", Err: err}
}
