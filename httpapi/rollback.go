package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// RollbackReport is a rollback that is under way.
type RollbackReport struct {
	To       string     `json:"to"`
	By       string     `json:"by"` // who asked for it; empty: unknown
	Since    *time.Time `json:"since"`
	Until    *time.Time `json:"until"`
	Blockers []string   `json:"blockers"` // the nodes that must go back before the objects
	Message  string     `json:"message"`  // why it is not done yet
}

// NewRollbackReport returns the rollback that is under way; nil: there is none.
func NewRollbackReport(v protocol.StatusView, f protocol.Fleet) *RollbackReport {
	r := f.Rollback
	if !r.On() {
		return nil
	}
	out := &RollbackReport{
		To: r.To.String(), By: r.By, Since: timestamp(r.Since), Until: timestamp(r.Until),
		Blockers: []string{}, Message: protocol.RollbackState(v, f),
	}
	for _, n := range protocol.RollbackBlockers(f, r.To) {
		out.Blockers = append(out.Blockers, string(n.ID))
	}
	return out
}

func (s Snapshot) rollbackReport() *RollbackReport {
	out := NewRollbackReport(s.Status, s.Fleet)
	if out != nil {
		out.Message = s.pasteable(out.Message)
	}
	return out
}
