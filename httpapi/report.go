package httpapi

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// NewStatus renders a snapshot.
func NewStatus(s Snapshot) report.Status {
	s = s.current()
	upgrade := judgeUpgrade(s)
	return report.Status{
		Node:       nodeReport(s),
		Ready:      readyReport(s),
		Reconciler: reconcilerReport(s),
		Election:   electionReport(s),
		Fleet:      fleetReport(s),
		Reconcile:  s.Reconcile,
		Etcd:       s.Etcd.Etcd,
		Cluster:    s.Cluster.Cluster,
		Roles:      s.LocalRoles,
		Services:   s.Services,

		Turns:     s.turnsReport(),
		Endpoints: s.endpointsReport(),

		Certificates: s.Certificates,
		UpgradeReady: upgrade.Ready(),

		UpgradeObstacles: UpgradeObstacles(upgrade, s.EtcdFlags),
		UpgradeNotes:     UpgradeNotes(upgrade, s.EtcdFlags),
		Warnings:         s.warningReports(warn.BySeverity(s.Warnings)),
	}
}

// warningReports renders warnings in their order.
func (s Snapshot) warningReports(from []protocol.Warning) []report.Warning {
	out := make([]report.Warning, 0, len(from))
	for _, w := range from {
		out = append(out, report.Warning{
			Reason: string(w.Reason), Subject: w.Subject, Message: s.pasteable(w.Message), Since: report.At(w.Since),
			Severity: string(warn.SeverityOf(w)),
		})
	}
	return out
}

func nodeReport(s Snapshot) report.Node {
	return report.Node{
		ID:                       string(s.Local.ID),
		Release:                  s.Local.Version.Release.String(),
		Version:                  s.Local.Version.String(),
		MinimumReconcilerRelease: s.Local.Constraints.MinReconciler.String(),
		MinimumApiserverRelease:  s.Local.Constraints.MinAPIServer.String(),
		Roles:                    s.Roles.Names(),
		RegisteredRevision:       s.Registration.Revision,
		Address:                  s.Address,
		Bundle:                   s.Local.Bundle,
		BundleSource:             s.BundleSource,
		BundleDigest:             s.Local.Digest,
		BundleProblem:            s.BundleProblem,
	}
}

// reconcilerKind names what the status key contains.
func reconcilerKind(k protocol.StatusKind) string {
	switch k {
	case protocol.StatusAbsent:
		return "absent"
	case protocol.StatusUndecodable:
		return "corrupt"
	case protocol.StatusPresent:
		return "present"
	case protocol.StatusUnknown:
	}
	return "unknown"
}

func reconcilerReport(s Snapshot) report.Reconciler {
	out := report.Reconciler{
		Kind:        reconcilerKind(s.Status.Kind),
		ModRevision: s.Status.Revision,
		Problem:     s.Status.Problem,
		Replacement: s.replacementReport(),
		Rollback:    s.rollbackReport(),
	}
	if s.Status.Kind != protocol.StatusPresent {
		return out
	}
	st := s.Status.Status
	out.State = st.State.String()
	out.Version = st.Version.String()
	out.MinimumCompatibleRelease = st.MinCompatible.String()
	out.Leader = string(st.Leader)
	out.Epoch = st.Epoch
	out.DrainedEpoch = st.DrainedEpoch
	out.ContentRelease = st.ContentRelease.String()
	out.ContentEpoch = st.ContentEpoch
	out.Bundle = st.Bundle
	out.BundleDigest = st.Digest
	out.UpdatedAt = report.At(s.StatusUpdatedAt)
	return out
}

func electionReport(s Snapshot) report.Election {
	e := s.Election
	out := report.Election{
		State:    string(e.State),
		Since:    report.At(e.Since),
		Leader:   string(e.Leader),
		Epoch:    e.Epoch,
		Eligible: e.Eligibility.Eligible,
		Reason:   string(e.Eligibility.Reason),
		Message:  s.pasteable(e.Eligibility.Message),
	}
	if e.State == "" {
		out.State = string(protocol.Ineligible)
	}
	if s.Etcd.Reached && !s.Etcd.Connected && e.State != protocol.Leading && e.State != protocol.Withdrawn {
		// The facts behind the election's decision may be outdated.
		out.State, out.Eligible, out.Reason = electionUnknown, false, string(warn.EtcdUnreachable)
		out.Message = "etcd does not answer, so this node cannot campaign"
	}
	if e.Step.Kind != protocol.StepUnset {
		out.Step = report.Step{Kind: e.Step.Kind.String(), Rule: string(e.Step.Rule), Message: s.pasteable(e.Step.Message)}
	}
	return out
}

// electionUnknown is the state of a sidecar that lost etcd.
const electionUnknown = "unknown"
