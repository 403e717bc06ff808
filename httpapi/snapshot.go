package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Snapshot is everything that the API shows, at one moment. It is made of plain
// values: whoever publishes one never changes it afterwards, its slices
// neither. The zero Snapshot is that of a sidecar which has just started: not
// ready, and nothing known. Zero times mean "never".
type Snapshot struct {
	// Local is what this sidecar is and runs. Its Epoch is not shown; that of
	// Election is.
	Local protocol.Local
	// Roles are those of the own record, as it was last seen.
	Roles protocol.Roles
	// Address is where others reach this sidecar's listener (--advertise-url).
	Address string
	// BundleSource names where the bundle comes from: a directory, or
	// "built-in".
	BundleSource string
	// BundleProblem says why the bundle as it now is in its directory is not
	// used; empty: it is used.
	BundleProblem string

	// Registration is what is known of the own record.
	Registration protocol.Registration
	// Gate is the verdict, and since when.
	Gate Gate

	// Status is the status key, as it was last read.
	Status protocol.StatusView
	// StatusUpdatedAt is the status's own updated_at.
	StatusUpdatedAt time.Time
	// Fleet is all records and presences, as they were last observed.
	Fleet protocol.Fleet

	Election Election
	// Reconcile is what this sidecar's own passes reported. All is zero if it has
	// not led yet.
	Reconcile report.Report
	Etcd      Etcd
	APIServer APIServer

	// Warnings are sentences for people about what a person should change,
	// like a kubeconfig that does not lead to a local address. Those about
	// etcd stand in Etcd.
	Warnings []string
}

// Gate is the verdict as the gate gives it.
type Gate struct {
	Verdict protocol.Verdict
	// Since is when Ready or Reason last changed.
	Since time.Time
	// StaleSince is since when a verdict rests on what was last known, because
	// etcd is out of reach or the status was lost (DESIGN 4.8); zero: it is
	// live.
	StaleSince time.Time
}

// Election is this sidecar's part in the election.
type Election struct {
	State protocol.ElectionState // empty: not decided yet; shown as ineligible
	// Leader is who leads, as far as known; empty: nobody, or unknown.
	Leader protocol.NodeID
	// Epoch is that of Leader; 0 where Leader is empty.
	Epoch int64
	// Eligibility says whether this node may campaign, and why not.
	Eligibility protocol.Eligibility
	// Step is the newest step of this leader; the zero Step where this sidecar
	// does not lead. Its blockers are those that /status shows.
	Step protocol.Step
	// Working: a survey or a pass is under way.
	Working bool
	// Absences is since when this leader has seen presences gone.
	Absences map[protocol.NodeID]Absence
}

// Absence is that of a node, as its leader counts it (4.9).
type Absence struct {
	Since      time.Time
	PassedOver time.Time // when the leader passes over the node; zero: never
}

// Etcd is the connection to etcd.
type Etcd struct {
	// Reached: etcd has answered at least once.
	Reached bool
	// Connected: the last request, or the watch, is well.
	Connected bool
	// LastContact is when etcd last answered. A publisher may be some seconds
	// late with it while Connected is true: it alone is no reason to publish.
	LastContact time.Time
	// Revision is the newest revision seen.
	Revision int64
	// Warnings are sentences about the servers, like known faults of their
	// version (4.6).
	Warnings []string
}

// APIServer is the local apiserver as the check `apiserver` sees it
// (--apiserver-readyz). It is polled by its owner, never by a probe.
type APIServer struct {
	Enabled bool // the check is a part of /readyz
	Ready   bool
	Message string // why it is not ready; empty where it is
}
