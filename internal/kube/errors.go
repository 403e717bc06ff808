package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TransportError says that no answer came. Unless Unsent is set, whether the
// request took effect is not known: read again before deciding (DESIGN 6.4).
type TransportError struct {
	Unsent bool // the connection was never made
	Err    error
}

// Error says what happened to the connection.
func (e *TransportError) Error() string { return "kube-apiserver is unreachable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

func transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer in time: %w", context.Cause(ctx))
	}
	var dial *net.OpError
	return &TransportError{Unsent: errors.As(err, &dial) && dial.Op == "dial", Err: err}
}

// resourceOf is what a path is about, for messages.
func resourceOf(p string) schema.GroupResource {
	return schema.GroupResource{Resource: path.Base(strings.TrimSuffix(p, "/"))}
}
