//go:build !lockstep_trace

package app

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// newTrace returns nil: a sidecar that ships reports to its recorder alone. trace_on.go is what
// tests build (docs/model.md#traces).
func newTrace(protocol.NodeID) (trace.Hook, error) { return nil, nil }
