package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// CordonReport contains since when a node is out of service, and until when (null: until people end it).
type CordonReport struct {
	Since   *time.Time `json:"since"`
	Until   *time.Time `json:"until"`
	Message string     `json:"message"`
	By      string     `json:"by"`
	Turn    bool       `json:"turn"` // it belongs to a turn, which ends it
}

func newCordonReport(c protocol.Cordon) *CordonReport {
	return &CordonReport{Since: timestamp(c.Since), Until: timestamp(c.Until), Message: c.Message, By: c.By, Turn: c.Turn}
}
