package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// ReplacementReport is a user's request that one bundle replace another.
type ReplacementReport struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Since   *time.Time `json:"since"`
	Message string     `json:"message"` // why it is not done yet
}

func (s Snapshot) replacementReport() *ReplacementReport {
	r := s.Replacement
	if r.Revision == 0 {
		return nil
	}
	return &ReplacementReport{
		From: r.From, To: r.To, Since: timestamp(r.Since), Message: s.pasteable(protocol.ReplacementState(s.Status, s.Fleet, r)),
	}
}
