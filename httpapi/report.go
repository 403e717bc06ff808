package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Report is the wire form of /status, as openapi.yaml describes it. Every field is
// always present. Without a value, a string is empty, a number 0, a list [] and a
// time null.
type Report struct {
	Node         NodeReport          `json:"node"`
	Ready        ReadyReport         `json:"ready"`
	Reconciler   ReconcilerReport    `json:"reconciler"`
	Election     ElectionReport      `json:"election"`
	Fleet        FleetReport         `json:"fleet"`
	Reconcile    ReconcileReport     `json:"reconcile"`
	Etcd         EtcdReport          `json:"etcd"`
	Certificates []CertificateReport `json:"certificates"`
	UpgradeReady bool                `json:"upgradeReady"` // protocol.UpgradeReady, while etcd is connected
	Warnings     []string            `json:"warnings"`
}

// NodeReport is what this node is and runs.
type NodeReport struct {
	ID                       string   `json:"id"`
	Release                  string   `json:"release"`
	Version                  string   `json:"version"`
	MinimumReconcilerRelease string   `json:"minimumReconcilerRelease"` // M
	MinimumApiserverRelease  string   `json:"minimumApiserverRelease"`  // A
	Roles                    []string `json:"roles"`
	RegisteredRevision       int64    `json:"registeredRevision"`
	Address                  string   `json:"address"`
	BundleSource             string   `json:"bundleSource"`
	BundleDigest             string   `json:"bundleDigest"`
	BundleProblem            string   `json:"bundleProblem"`
}

// ReadyReport is the gate's verdict.
type ReadyReport struct {
	Ready      bool       `json:"ready"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message"`
	Since      *time.Time `json:"since"`
	StaleSince *time.Time `json:"staleSince"`
}

// ReconcilerReport is the reconciler status. It is always an object; Kind says
// whether there is a status at all.
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
	BundleDigest             string     `json:"bundleDigest"`
	UpdatedAt                *time.Time `json:"updatedAt"`
	Problem                  string     `json:"problem"`
}

// ElectionReport is this sidecar's part in the election.
type ElectionReport struct {
	State    string     `json:"state"`
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

// RecordReport is one node record with its presence. Release and Version are empty
// if the record is corrupt; Problem says why it is, and what to do.
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
	BundleDigest string   `json:"bundleDigest"`
}

// FleetNode is a record in /status.
type FleetNode struct {
	RecordReport
	Blocks bool `json:"blocks"` // the leader waits for it
}

// BlockerReport is a node that the leader waits for, and what to do.
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
	Running         bool            `json:"running"`
	LastSuccess     *time.Time      `json:"lastSuccess"`
	LastError       string          `json:"lastError"`
	DurationSeconds float64         `json:"durationSeconds"`
	Objects         ObjectsReport   `json:"objects"`
	PruneHeld       string          `json:"pruneHeld"`
	Failures        []FailureReport `json:"failures"`
	TotalFailures   int             `json:"totalFailures"`
	Drift           DriftReport     `json:"drift"`
}

// DriftReport is what other clients changed between the passes, and was repaired.
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
	Message      string     `json:"message"`
}

// ObjectsReport counts what the last pass did.
type ObjectsReport struct {
	Desired   int `json:"desired"`
	Applied   int `json:"applied"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	Pruned    int `json:"pruned"`
	Owed      int `json:"owed"`
}

// FailureReport is an object that the last pass could not apply.
type FailureReport struct {
	Object  string `json:"object"`
	Message string `json:"message"`
}

// EtcdReport is the connection to etcd.
type EtcdReport struct {
	Connected   bool       `json:"connected"`
	LastContact *time.Time `json:"lastContact"`
	Revision    int64      `json:"revision"`
	Store       string     `json:"store"`
	Warnings    []string   `json:"warnings"`
}

// CertificateReport is a certificate that this sidecar uses.
type CertificateReport struct {
	Use     string     `json:"use"`
	File    string     `json:"file"`
	Expires *time.Time `json:"expires"`
	Problem string     `json:"problem"`
}

// NewReport renders a snapshot.
func NewReport(s Snapshot) Report {
	v := verdict(s)
	return Report{
		Node: nodeReport(s),
		Ready: ReadyReport{
			Ready: v.Ready, Reason: string(v.Reason), Message: v.Message,
			Since: timestamp(s.Gate.Since), StaleSince: timestamp(s.Gate.StaleSince),
		},
		Reconciler:   reconcilerReport(s),
		Election:     electionReport(s.Election),
		Fleet:        fleetReport(s),
		Reconcile:    reconcileReport(s),
		Etcd:         etcdReport(s.Etcd),
		Certificates: certificatesReport(s.Certificates),
		UpgradeReady: s.Etcd.Connected && protocol.UpgradeReady(s.Status, s.Fleet), // a stale view proves nothing
		Warnings:     list(s.Warnings),
	}
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
	out.BundleDigest = st.Digest
	out.UpdatedAt = timestamp(s.StatusUpdatedAt)
	return out
}

func electionReport(e Election) ElectionReport {
	out := ElectionReport{
		State:    string(e.State),
		Leader:   string(e.Leader),
		Epoch:    e.Epoch,
		Eligible: e.Eligibility.Eligible,
		Reason:   string(e.Eligibility.Reason),
		Message:  e.Eligibility.Message,
	}
	if e.State == "" {
		out.State = string(protocol.Ineligible)
	}
	if e.Step.Kind != protocol.StepUnset {
		out.Step = StepReport{Kind: e.Step.Kind.String(), Rule: string(e.Step.Rule), Message: e.Step.Message}
	}
	return out
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
	blocks := make(map[protocol.NodeID]bool)
	for _, b := range s.Election.Step.Blockers {
		blocks[b.Node] = true
		absence := s.Election.Absences[b.Node]
		out.Blockers = append(out.Blockers, BlockerReport{
			ID: string(b.Node), Release: b.Release.String(), Reason: string(b.Reason), Message: b.Message,
			GoneSince: timestamp(absence.Since), PassedOverAt: timestamp(absence.PassedOver),
		})
	}
	for _, r := range s.Fleet.Records {
		out.Nodes = append(out.Nodes, FleetNode{RecordReport: NewRecordReport(r), Blocks: blocks[r.ID]})
	}
	return out
}

// NewRecordReport renders a record. It leaves the release of a corrupt record
// empty: what could be decoded of it may be anything.
func NewRecordReport(r protocol.Record) RecordReport {
	out := RecordReport{
		ID:           string(r.ID),
		Roles:        r.Node.Roles.Names(),
		Ready:        r.Alive && r.Presence.Ready,
		Alive:        r.Alive,
		Problem:      r.Remedy(),
		Address:      r.Node.Address,
		BundleDigest: r.Node.Digest,
	}
	if r.Problem == "" {
		out.Release, out.Version = r.Node.Version.Release.String(), r.Node.Version.String()
	}
	if r.Alive {
		out.Reason, out.Election = string(r.Presence.Reason), string(r.Presence.Election)
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
		Drift:           driftReport(r.Drift),
	}
	for _, f := range r.Failures {
		out.Failures = append(out.Failures, FailureReport(f))
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
			Since: timestamp(f.Since), Message: f.Message(),
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
		Warnings:    list(e.Warnings),
	}
}

func certificatesReport(certs []Certificate) []CertificateReport {
	out := make([]CertificateReport, 0, len(certs))
	for _, c := range certs {
		out = append(out, CertificateReport{Use: c.Use, File: c.File, Expires: timestamp(c.Expires), Problem: c.Problem})
	}
	return out
}

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
