package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// standing is the answer of /readyz, and the reason (docs/protocol.md#serves).
type standing struct {
	Serves  bool
	Reason  protocol.Reason // Ready, Overridden, or why it does not
	Message string
	Since   time.Time
}

// ReadyReport is the gate's verdict.
type ReadyReport struct {
	Ready      bool       `json:"ready"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message"`
	Since      *time.Time `json:"since"`
	StaleSince *time.Time `json:"staleSince"`
	// Override is the one in force; null: none.
	Override *OverrideReport `json:"override"`
	ServesReport
	ServesSince *time.Time `json:"servesSince"` // when /readyz last changed
}

// ServesReport reports whether a node serves: the answer of its /readyz.
type ServesReport struct {
	Serves        bool   `json:"serves"`
	ServesReason  string `json:"servesReason"`  // Ready, Overridden, or why it does not; empty: it is not alive
	ServesMessage string `json:"servesMessage"` // the same, for people; empty: not known
}

// newServesReport describes a node that is alive, by its presence.
func newServesReport(r *protocol.Record) ServesReport {
	reason, message := r.WhyServes()
	return ServesReport{r.Serves(), string(reason), message}
}

// Serves reports whether /readyz answers 200.
func Serves(s Snapshot) bool { return servesNow(s).Serves }

func servesNow(s Snapshot) standing {
	v := verdict(s)
	out := standing{Serves: v.Ready, Reason: v.Reason, Message: v.Message, Since: s.Gate.Since}
	if !v.Ready || !s.APIServer.Enabled {
		return out
	}
	if s.APIServer.Since.After(out.Since) {
		out.Since = s.APIServer.Since
	}
	if !s.APIServer.Ready {
		out.Serves = false
		out.Reason, out.Message = s.APIServer.Problem()
	}
	return out
}

// FleetNode is a record in /status.
type FleetNode struct {
	RecordReport
	Blocks   bool            `json:"blocks"`   // the leader waits for it
	Host     string          `json:"host"`     // of the sidecar that is alive
	Warnings []WarningReport `json:"warnings"` // that the node reports

	// Since when this sidecar has seen it alive or not, and serve or not; null: not known.
	AliveSince  *time.Time `json:"aliveSince"`
	ServesSince *time.Time `json:"servesSince"`
	// ExpiresAt is when leaders ignore or delete its record, as far as this sidecar knows;
	// null: it is alive, or does not expire.
	ExpiresAt *time.Time `json:"expiresAt"`
}
