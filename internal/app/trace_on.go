//go:build lockstep_trace

package app

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// newTrace returns a hook that writes a file of this process in the directory LOCKSTEP_TRACE. A
// trace with a gap would prove nothing, so the sidecar panics when it cannot write the trace.
func newTrace(node protocol.NodeID) (trace.Hook, error) {
	dir := os.Getenv("LOCKSTEP_TRACE")
	if dir == "" {
		return nil, nil
	}
	file, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%d.trace", node, os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the trace: %w", err)
	}
	return trace.To(file, func(err error) { panic(err) }), nil
}

// recorded returns false if LOCKSTEP_UNRECORDED is set: a benchmark compares the memory of two processes.
func recorded() bool { return os.Getenv("LOCKSTEP_UNRECORDED") == "" }
