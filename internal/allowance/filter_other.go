//go:build !linux

package allowance

import (
	"errors"
	"net"
)

// attach needs Linux. Elsewhere each refused connection costs its closing.
func attach(net.Listener, rules) error { return errors.ErrUnsupported }
