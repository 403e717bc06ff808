package httpapi

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

func readyReport(s Snapshot) ReadyReport {
	v, now := verdict(s), servesNow(s)
	return ReadyReport{
		Ready: v.Ready, Reason: string(v.Reason), Message: v.Message,
		Since: timestamp(s.Gate.Since), StaleSince: timestamp(s.Gate.StaleSince),
		Override:     overrideReport(s.Override),
		ServesReport: ServesReport{Serves: now.Serves, ServesReason: string(now.Reason), ServesMessage: now.Message},
		ServesSince:  timestamp(now.Since),
	}
}

func fleetReport(s Snapshot) FleetReport {
	sum := protocol.Summarize(s.Fleet, s.Local.Version.Release)
	out := FleetReport{
		Revision:   s.Fleet.Revision,
		MinRelease: sum.Min.String(),
		MaxRelease: sum.Max.String(),
		Nodes:      make([]FleetNode, 0, len(s.Fleet.Records)),
		Blockers:   make([]BlockerReport, 0, len(s.Election.Step.Blockers)),
	}
	blocks := reportedBlockers(s.Fleet)
	for _, b := range s.Election.Step.Blockers {
		blocks[b.Node] = true
		absence := s.Election.Absences[b.Node]
		out.Blockers = append(out.Blockers, BlockerReport{
			ID: string(b.Node), Release: b.Release.String(), Reason: string(b.Reason), Message: s.pasteable(b.Message),
			GoneSince: timestamp(absence.Since), PassedOverAt: timestamp(absence.PassedOver),
		})
	}
	for _, r := range s.Fleet.Records {
		n := FleetNode{RecordReport: NewRecordReport(r), Blocks: blocks[r.ID], Warnings: []WarningReport{}}
		n.Problem = s.pasteable(n.Problem)
		seen := s.Sightings[r.ID]
		if !r.Alive && r.Node.FenceAfter > 0 && !seen.Alive.IsZero() {
			n.ExpiresAt = timestamp(seen.Alive.Add(r.Node.FenceAfter))
		}
		n.AliveSince, n.ServesSince = timestamp(seen.Alive), timestamp(seen.Serves)
		if r.Alive {
			n.Host, n.Warnings = r.Presence.Host, s.nodeWarnings(r)
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// nodeWarnings returns the warnings that a node reports. Their Since is by this sidecar's clock if it saw them
// begin: the clock of that node may differ.
func (s Snapshot) nodeWarnings(r *protocol.Record) []WarningReport {
	out := s.warningReports(r.Presence.Warnings)
	for i, w := range r.Presence.Warnings {
		if at, found := s.WarningsSince[NodeWarning{r.ID, w.Reason, w.Subject, w.Message}]; found {
			out[i].Since = timestamp(at)
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

// NewRecordReport renders a record. It leaves the release of a corrupt record empty: the decoded part may be
// anything.
func NewRecordReport(r *protocol.Record) RecordReport {
	out := RecordReport{
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
		out.Cordon = newCordonReport(r.Node.Cordon)
	}
	if r.Problem == "" {
		out.Release, out.Version = r.Node.Version.Release.String(), r.Node.Version.String()
	}
	if r.Alive {
		out.Reason, out.Election = string(r.Presence.Reason), string(r.Presence.Election)
		out.ServesReport = newServesReport(r)
		out.RunReport = RunReport{ApiserverVersion: r.Presence.APIServer, ServicesDigest: r.Presence.Services}
	}
	return out
}

func reconcileReport(s Snapshot) ReconcileReport {
	r := s.Reconcile
	out := ReconcileReport{
		Running:         s.Election.Working,
		LastSuccess:     timestamp(r.LastSuccess),
		LastError:       r.LastError,
		DurationSeconds: r.Duration.Seconds(),
		Objects:         ObjectsReport(r.Objects),
		PruneHeld:       r.PruneHeld,
		Failures:        make([]FailureReport, 0, len(r.Failures)),
		TotalFailures:   r.TotalFailures,
		Failing:         r.Failing,
		Strangers:       make([]StrangerReport, 0, len(r.Strangers)),
		TotalStrangers:  r.TotalStrangers,
		Drift:           driftReport(r.Drift),
	}
	for _, f := range r.Failures {
		out.Failures = append(out.Failures, FailureReport{
			Object: f.Object, Message: f.Message, Source: f.Source, Remedy: f.Remedy(), Since: timestamp(f.Since), Required: f.Required,
		})
	}
	for _, st := range r.Strangers {
		out.Strangers = append(out.Strangers, StrangerReport(st))
	}
	return out
}

func driftReport(d report.Drift) DriftReport {
	out := DriftReport{
		Watching: d.Watching, Problem: d.Problem, Repairs: d.Repairs, LastRepair: timestamp(d.LastRepair),
		Fights: make([]FightReport, 0, len(d.Fights)),
	}
	for _, f := range d.Fights {
		out.Fights = append(out.Fights, FightReport{
			Object: f.Object, FieldManager: f.Manager, Fields: list(f.Fields), Repairs: f.Repairs,
			Since: timestamp(f.Since), LastRepair: timestamp(f.Last), Message: f.Message(),
		})
	}
	return out
}

func etcdReport(e Etcd) EtcdReport {
	return EtcdReport{
		Connected:   e.Connected,
		LastContact: timestamp(e.LastContact),
		Revision:    e.Revision,
		Store:       e.Store,
		Endpoints:   list(e.Endpoints),
		Problem:     e.Problem,
		Warnings:    list(e.Warnings),
	}
}

// RunReport lists the versions that a node reports to run, while it is alive.
type RunReport struct {
	ApiserverVersion string `json:"apiserverVersion"` // empty: unknown
	ServicesDigest   string `json:"servicesDigest"`   // empty: it runs none
}
