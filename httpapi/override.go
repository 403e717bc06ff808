package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// OverrideReport contains until when this node serves regardless of its gate, and why.
type OverrideReport struct {
	Until   *time.Time `json:"until"`
	Message string     `json:"message"`
}

func overrideReport(o protocol.Override) *OverrideReport {
	if !o.On() {
		return nil
	}
	return &OverrideReport{Until: timestamp(o.Until), Message: o.Message}
}
