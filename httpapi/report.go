package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Report is the wire form of /status, as openapi.yaml describes it. Every field is
// always present. Without a value, a string is empty, a number 0, a list [] and a
// time null.
type Report struct {
	Node       NodeReport       `json:"node"`
	Ready      ReadyReport      `json:"ready"`
	Reconciler ReconcilerReport `json:"reconciler"`
	Election   ElectionReport   `json:"election"`
	Fleet      FleetReport      `json:"fleet"`
	Reconcile  ReconcileReport  `json:"reconcile"`
	Etcd       EtcdReport       `json:"etcd"`
	Cluster    ClusterReport    `json:"cluster"`
	Roles      RolesReport      `json:"roles"`
	Services   []ServiceReport  `json:"services"`

	Turns             TurnsReport             `json:"turns"`
	KubernetesService KubernetesServiceReport `json:"kubernetesService"`

	Certificates []CertificateReport `json:"certificates"`
	UpgradeReady bool                `json:"upgradeReady"`

	UpgradeObstacles []UpgradeObstacleReport `json:"upgradeObstacles"` // empty if UpgradeReady
	UpgradeNotes     []string                `json:"upgradeNotes"`     // costs of an upgrade in a fleet of this size
	Warnings         []WarningReport         `json:"warnings"`
}

// WarningReport is a problem that needs an action.
type WarningReport struct {
	Reason  string     `json:"reason"`  // empty: none
	Subject string     `json:"subject"` // the node or object that it is about; empty: this node
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
}

// NodeReport describes this node and the programs that it runs.
type NodeReport struct {
	ID                       string   `json:"id"`
	Release                  string   `json:"release"`
	Version                  string   `json:"version"`
	MinimumReconcilerRelease string   `json:"minimumReconcilerRelease"` // M
	MinimumApiserverRelease  string   `json:"minimumApiserverRelease"`  // A
	Roles                    []string `json:"roles"`
	RegisteredRevision       int64    `json:"registeredRevision"`
	Address                  string   `json:"address"`
	Bundle                   string   `json:"bundle"` // its name
	BundleSource             string   `json:"bundleSource"`
	BundleDigest             string   `json:"bundleDigest"`
	BundleProblem            string   `json:"bundleProblem"`
}

// ReconcilerReport is the reconciler status. It is always an object; Kind reports whether there is a status at
// all.
type ReconcilerReport struct {
	Kind                     string     `json:"kind"` // unknown, absent, corrupt, present
	State                    string     `json:"state"`
	Version                  string     `json:"version"`
	MinimumCompatibleRelease string     `json:"minimumCompatibleRelease"`
	Leader                   string     `json:"leader"`
	Epoch                    int64      `json:"epoch"`
	DrainedEpoch             int64      `json:"drainedEpoch"`
	ModRevision              int64      `json:"modRevision"`
	ContentRelease           string     `json:"contentRelease"`
	ContentEpoch             int64      `json:"contentEpoch"`
	Bundle                   string     `json:"bundle"` // its name; empty: unknown
	BundleDigest             string     `json:"bundleDigest"`
	UpdatedAt                *time.Time `json:"updatedAt"`
	Problem                  string     `json:"problem"`
	// Replacement of the bundle by another one, as people requested; null: none.
	Replacement *ReplacementReport `json:"replacement"`
	// Rollback that is under way; null: none.
	Rollback *RollbackReport `json:"rollback"`
}

// ElectionReport is this sidecar's part in the election.
type ElectionReport struct {
	State    string     `json:"state"`
	Since    *time.Time `json:"since"` // of State
	Leader   string     `json:"leader"`
	Epoch    int64      `json:"epoch"`
	Eligible bool       `json:"eligible"`
	Reason   string     `json:"reason"`
	Message  string     `json:"message"`
	Step     StepReport `json:"step"`
}

// StepReport is the leader's newest step; Kind is empty on a node that does not
// lead.
type StepReport struct {
	Kind    string `json:"kind"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// FleetReport is all node records, and the nodes that the leader waits for.
type FleetReport struct {
	Revision   int64           `json:"revision"`
	MinRelease string          `json:"minRelease"`
	MaxRelease string          `json:"maxRelease"`
	Nodes      []FleetNode     `json:"nodes"`
	Blockers   []BlockerReport `json:"blockers"`
}

// RecordReport is one node record with its presence. Release and Version are empty if the record is corrupt;
// Problem gives the reason and the remedy.
type RecordReport struct {
	ID           string   `json:"id"`
	Release      string   `json:"release"`
	Version      string   `json:"version"`
	Roles        []string `json:"roles"`
	Ready        bool     `json:"ready"`
	Reason       string   `json:"reason"`
	Alive        bool     `json:"alive"`
	Election     string   `json:"election"`
	Problem      string   `json:"problem"`
	Address      string   `json:"address"`
	Bundle       string   `json:"bundle"` // its name; empty: unknown
	BundleDigest string   `json:"bundleDigest"`
	RunReport
	Ephemeral bool `json:"ephemeral"` // it is deleted when its node stopped or expired
	ServesReport
	// Cordon is why the node is out of service; null: it is in service.
	Cordon *CordonReport `json:"cordon"`
}

// BlockerReport is a node that the leader waits for, with the remedy.
type BlockerReport struct {
	ID           string     `json:"id"`
	Release      string     `json:"release"`
	Reason       string     `json:"reason"`
	Message      string     `json:"message"`
	GoneSince    *time.Time `json:"goneSince"`    // null: it is alive
	PassedOverAt *time.Time `json:"passedOverAt"` // null: never
}

// ReconcileReport is the last pass over the objects by this sidecar.
type ReconcileReport struct {
	Running         bool             `json:"running"`
	LastSuccess     *time.Time       `json:"lastSuccess"`
	LastError       string           `json:"lastError"`
	DurationSeconds float64          `json:"durationSeconds"`
	Objects         ObjectsReport    `json:"objects"`
	PruneHeld       string           `json:"pruneHeld"`
	Failures        []FailureReport  `json:"failures"`
	TotalFailures   int              `json:"totalFailures"`
	Failing         int              `json:"failing"` // how many of TotalFailures concern required objects
	Strangers       []StrangerReport `json:"strangers"`
	TotalStrangers  int              `json:"totalStrangers"`
	Drift           DriftReport      `json:"drift"`
}

// StrangerReport is an object that carries the set's label but does not belong to the set.
type StrangerReport struct {
	Object  string `json:"object"`
	Manager string `json:"manager"`
	Command string `json:"command"`
}

// DriftReport describes changes by other clients between the passes, which were repaired.
type DriftReport struct {
	Watching   bool          `json:"watching"`
	Problem    string        `json:"problem"`
	Repairs    int64         `json:"repairs"`
	LastRepair *time.Time    `json:"lastRepair"`
	Fights     []FightReport `json:"fights"`
}

// FightReport is an object that another client changes back again and again.
type FightReport struct {
	Object       string     `json:"object"`
	FieldManager string     `json:"fieldManager"`
	Fields       []string   `json:"fields"`
	Repairs      int        `json:"repairs"`
	Since        *time.Time `json:"since"`
	LastRepair   *time.Time `json:"lastRepair"`
	Message      string     `json:"message"`
}

// ObjectsReport counts the results of the last pass.
type ObjectsReport struct {
	Desired   int `json:"desired"`
	Fence     int `json:"fence"`
	Applied   int `json:"applied"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	Pruned    int `json:"pruned"`
	Owed      int `json:"owed"`
}

// FailureReport is an object that the last pass could not apply.
type FailureReport struct {
	Object  string     `json:"object"`
	Message string     `json:"message"`
	Source  string     `json:"source"` // of its manifest; empty: it comes from none
	Remedy  string     `json:"remedy"` // the action that helps
	Since   *time.Time `json:"since"`

	Required bool `json:"required"`
}

// EtcdReport is the connection to etcd.
type EtcdReport struct {
	Connected   bool       `json:"connected"`
	LastContact *time.Time `json:"lastContact"`
	Revision    int64      `json:"revision"`
	Store       string     `json:"store"`
	Endpoints   []string   `json:"endpoints"`
	Problem     string     `json:"problem"` // why it does not answer
	Warnings    []string   `json:"warnings"`
}

// NewReport renders a snapshot.
func NewReport(s Snapshot) Report {
	upgrade := judgeUpgrade(s)
	return Report{
		Node:       nodeReport(s),
		Ready:      readyReport(s),
		Reconciler: reconcilerReport(s),
		Election:   electionReport(s),
		Fleet:      fleetReport(s),
		Reconcile:  reconcileReport(s),
		Etcd:       etcdReport(s.Etcd),
		Cluster:    clusterReport(s.Cluster),
		Roles:      rolesReport(s.LocalRoles),
		Services:   ServiceReports(s.Services),

		Turns:             s.turnsReport(),
		KubernetesService: kubernetesServiceReport(s),

		Certificates: certificatesReport(s.Certificates),
		UpgradeReady: upgrade.Ready(),

		UpgradeObstacles: UpgradeObstacles(upgrade, s.EtcdFlags),
		UpgradeNotes:     UpgradeNotes(upgrade, s.EtcdFlags),
		Warnings:         s.warningReports(s.Warnings),
	}
}

func (s Snapshot) warningReports(from []protocol.Warning) []WarningReport {
	out := make([]WarningReport, 0, len(from))
	for _, w := range from {
		out = append(out, WarningReport{
			Reason: string(w.Reason), Subject: w.Subject, Message: s.pasteable(w.Message), Since: timestamp(w.Since),
		})
	}
	return out
}

func nodeReport(s Snapshot) NodeReport {
	return NodeReport{
		ID:                       string(s.Local.ID),
		Release:                  s.Local.Version.Release.String(),
		Version:                  s.Local.Version.String(),
		MinimumReconcilerRelease: s.Local.Constraints.MinReconciler.String(),
		MinimumApiserverRelease:  s.Local.Constraints.MinApiserver.String(),
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

func reconcilerReport(s Snapshot) ReconcilerReport {
	out := ReconcilerReport{
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
	out.UpdatedAt = timestamp(s.StatusUpdatedAt)
	return out
}

func electionReport(s Snapshot) ElectionReport {
	e := s.Election
	out := ElectionReport{
		State:    string(e.State),
		Since:    timestamp(e.Since),
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
		out.State, out.Eligible, out.Reason = electionUnknown, false, string(protocol.EtcdUnreachable)
		out.Message = "etcd does not answer, so this node cannot campaign"
	}
	if e.Step.Kind != protocol.StepUnset {
		out.Step = StepReport{Kind: e.Step.Kind.String(), Rule: string(e.Step.Rule), Message: s.pasteable(e.Step.Message)}
	}
	return out
}

// electionUnknown is the state of a sidecar that lost etcd.
const electionUnknown = "unknown"

// timestamp is RFC 3339 in UTC, to the millisecond; null for never.
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

// list turns nil into an empty list.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
