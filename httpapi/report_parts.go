package httpapi

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

func readyReport(s Snapshot) report.Ready {
	v := verdict(s)
	standing, since := servesNow(s)
	return report.Ready{
		Ready: v.Ready, Reason: string(v.Reason), Message: v.Message,
		Since: report.At(s.Gate.Since), StaleSince: report.At(s.Gate.StaleSince),
		Override: overrideReport(s.Override), Standing: standing, ServesSince: report.At(since),
	}
}

func fleetReport(s Snapshot) report.Fleet {
	sum := protocol.Summarize(s.Fleet, s.Local.Version.Release)
	out := report.Fleet{
		Revision:   s.Fleet.Revision,
		MinRelease: sum.Min.String(),
		MaxRelease: sum.Max.String(),
	}
	blocks := reportedBlockers(s.Fleet)
	for _, b := range s.Election.Step.Blockers {
		blocks[b.Node] = true
		out.Blockers = append(out.Blockers, report.Blocker{
			ID: string(b.Node), Release: b.Release.String(), Reason: string(b.Reason), Message: s.pasteable(b.Message),
			Absence: s.Election.Absences[b.Node],
		})
	}
	for _, r := range s.Fleet.Records {
		n := report.FleetNode{Record: NewRecord(r), Blocks: blocks[r.ID]}
		n.Problem = s.pasteable(n.Problem)
		seen := s.Sightings[r.ID]
		if !r.Alive && r.Node.ExpireAfter > 0 && !seen.Alive.IsZero() {
			n.ExpiresAt = report.At(seen.Alive.Add(r.Node.ExpireAfter))
		}
		n.AliveSince, n.ServesSince = report.At(seen.Alive), report.At(seen.Serves)
		if r.Alive {
			n.Host, n.Warnings = r.Presence.Host, s.nodeWarnings(r)
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// nodeWarnings returns the warnings that a node reports. Their Since is by this sidecar's clock if it saw them
// begin: the clock of that node may differ.
func (s Snapshot) nodeWarnings(r *protocol.Record) []report.Warning {
	sorted := warn.BySeverity(r.Presence.Warnings)
	out := s.warningReports(sorted)
	for i, w := range sorted {
		if at, found := s.WarningsSince[NodeWarning{r.ID, w.Reason, w.Subject, w.Message}]; found {
			out[i].Since = report.At(at)
		}
	}
	return out
}

// reportedBlockers returns the nodes that the leader waits for, as the leader's presence reports them to the
// other nodes.
func reportedBlockers(f protocol.Fleet) map[protocol.NodeID]bool {
	out := make(map[protocol.NodeID]bool)
	for _, r := range f.Records {
		if !r.Alive || r.Presence.Election != protocol.Leading {
			continue
		}
		for _, w := range r.Presence.Warnings {
			switch w.Reason {
			case protocol.ReleaseTooOld, protocol.ReconcilerTooOld, protocol.RecordCorrupt, protocol.NewerRelease:
				out[protocol.NodeID(w.Subject)] = true // "" is the leader's step
			default:
			}
		}
	}
	return out
}

// NewRecord renders a record. It leaves the release of a corrupt record empty: the decoded part may be
// anything.
func NewRecord(r *protocol.Record) report.Record {
	out := report.Record{
		ID:           string(r.ID),
		Roles:        r.Node.Roles.Names(),
		Ready:        r.Alive && r.Presence.Ready,
		Alive:        r.Alive,
		Problem:      r.Remedy(),
		Address:      r.Node.Address,
		Bundle:       r.Node.Bundle,
		BundleDigest: r.Node.Digest,
		Ephemeral:    r.Node.Ephemeral,
	}
	if r.Node.Cordon.On() {
		c := r.Node.Cordon
		out.Cordon = &report.Cordon{Since: report.At(c.Since), Until: report.At(c.Until), Message: c.Message, By: c.By, Turn: c.Turn}
	}
	if r.Problem == "" {
		out.Release, out.Version = r.Node.Version.Release.String(), r.Node.Version.String()
	}
	if r.Alive {
		out.Reason, out.Election = string(r.Presence.Reason), string(r.Presence.Election)
		reason, message := r.WhyServes()
		out.Standing = report.Standing{Serves: r.Serves(), ServesReason: string(reason), ServesMessage: message}
		out.Runs = report.Runs{ApiserverVersion: r.Presence.APIServer, ServicesDigest: r.Presence.Services}
	}
	return out
}

// endpointsReport completes the messages.
func (s Snapshot) endpointsReport() report.Endpoints {
	out := s.Endpoints
	out.Message, out.Nodes = s.pasteable(out.Message), slices.Clone(out.Nodes)
	for i, n := range out.Nodes {
		out.Nodes[i].Message = s.pasteable(n.Message)
	}
	return out
}

func (s Snapshot) replacementReport() *report.Replacement {
	r := s.Replacement
	if r.Revision == 0 {
		return nil
	}
	return &report.Replacement{
		From: r.From, To: r.To, Since: report.At(r.Since), Message: s.pasteable(protocol.ReplacementState(s.Status, s.Fleet, r)),
	}
}

// NewRollback returns the rollback that is under way; nil: there is none.
func NewRollback(v protocol.StatusView, f protocol.Fleet) *report.Rollback {
	r := f.Rollback
	if !r.On() {
		return nil
	}
	message, blockers := protocol.RollbackProgress(v, f)
	return &report.Rollback{
		To: r.To.String(), By: r.By, Since: report.At(r.Since), Until: report.At(r.Until),
		Blockers: protocol.NodeNames(blockers), Message: message,
	}
}

func (s Snapshot) rollbackReport() *report.Rollback {
	out := NewRollback(s.Status, s.Fleet)
	if out != nil {
		out.Message = s.pasteable(out.Message)
	}
	return out
}

func overrideReport(o protocol.Override) *report.Override {
	if !o.On() {
		return nil
	}
	return &report.Override{Until: report.At(o.Until), Message: o.Message}
}
