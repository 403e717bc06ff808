package noderecord

import "github.com/lockstep-dev/lockstep/protocol"

// DuplicateFacts describe a presence that a sidecar finds under its own node ID.
type DuplicateFacts struct {
	Holder    protocol.Presence // the presence that was found
	Instance  string            // of this sidecar
	MachineID string            // of this sidecar's machine; empty: unknown
	Held      bool              // this sidecar held the presence before, so the holder is newer
}

// MustYieldID reports whether a sidecar must give up its node ID to the holder of
// the presence (docs/protocol-nodes.md#duplicate-ids). On one machine the newer sidecar
// wins. On different machines the newcomer loses while the presence exists.
func MustYieldID(f DuplicateFacts) bool {
	if f.Holder.Instance == f.Instance || f.Holder.Instance == "" {
		return false
	}
	sameMachine := f.MachineID != "" && f.Holder.MachineID == f.MachineID
	return f.Held || !sameMachine
}
