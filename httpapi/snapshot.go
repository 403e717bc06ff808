package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// Snapshot is everything that the API shows, at one moment. It consists of plain values: after it was published,
// neither it nor its slices may change. The zero Snapshot belongs to a sidecar that just started: not ready, and
// nothing known. Zero times mean "never".
type Snapshot struct {
	// Local describes this sidecar and its release. The API shows the Epoch of Election, not this one.
	Local protocol.Local
	// Roles are the roles in this node's record, as last seen.
	Roles protocol.Roles
	// LocalRoles are the roles by which this sidecar starts and stops services.
	LocalRoles report.Roles
	// Services are the programs that this node runs for its roles.
	Services []report.Service
	// Address is where other machines reach the HTTP API (--advertise-url).
	Address string
	// BundleSource names where the bundle comes from: a directory, or
	// "built-in".
	BundleSource string
	// BundleProblem is why the bundle in its directory was rejected; empty: it is
	// in use.
	BundleProblem string

	// Registration is this sidecar's knowledge of its node's record.
	Registration protocol.Registration
	// Gate is the verdict, and since when.
	Gate Gate
	// Override is in force, whether the gate would be open without it or not.
	Override protocol.Override

	// Status is the status key, as it was last read.
	Status protocol.StatusView
	// StatusUpdatedAt is the status's own updated_at.
	StatusUpdatedAt time.Time
	// Replacement is the one that people requested; the zero value: none.
	Replacement protocol.Replacement
	// Fleet is all records and presences, as they were last observed.
	Fleet protocol.Fleet
	// Sightings are since when this sidecar has seen the nodes in the condition that Fleet shows.
	Sightings map[protocol.NodeID]Sighting
	// WarningsSince is since when this sidecar has seen the warnings of other nodes, by its own clock. It contains
	// only warnings that this sidecar saw begin.
	WarningsSince map[NodeWarning]time.Time

	Election Election
	// Reconcile is the report of this sidecar's own passes. All is zero if it never led.
	Reconcile report.Reconcile
	Etcd      Etcd
	Cluster   Cluster
	APIServer APIServer
	Endpoints report.Endpoints
	// Certificates are the ones that this sidecar uses, as its files contain them.
	Certificates []report.Certificate

	// Warnings are problems that need an action, such as a kubeconfig for another machine. Warnings about the etcd
	// servers are in Etcd.
	Warnings []protocol.Warning

	// EtcdFlags are added to the commands that messages name, so that they can be
	// pasted: the flags of this sidecar's etcd, with a leading space.
	EtcdFlags string
	// OverrideFlag is the same for the commands that begin and end an override of this node.
	OverrideFlag string
}

// Sighting is since when a sidecar has seen a node in its present condition, by its own clock. Zero times: not
// known.
type Sighting struct {
	Alive  time.Time // alive, or not
	Serves time.Time // serving, or not for the same reason
	// MayRestart: missing, and protocol.MayRestart.
	MayRestart bool
}

// NodeWarning is a warning of a node.
type NodeWarning struct {
	Node             protocol.NodeID
	Reason           protocol.Reason
	Subject, Message string
}

// Gate is the verdict, and since when.
type Gate struct {
	Verdict protocol.Verdict
	// Since is when Ready or Reason last changed.
	Since time.Time
	// StaleSince is since when the verdict rests on the last known facts, because etcd is unreachable or the status
	// was lost (docs/protocol-nodes.md#gate); zero: it is up to date.
	StaleSince time.Time
}

// Election is this sidecar's part in the election.
type Election struct {
	State protocol.ElectionState // empty: not decided yet; shown as ineligible
	Since time.Time              // when State last changed
	// Leader is the node that leads; empty: none, or unknown.
	Leader protocol.NodeID
	// Epoch is Leader's epoch; 0 if Leader is empty.
	Epoch int64
	// Eligibility reports whether this node may campaign, and why not.
	Eligibility protocol.Eligibility
	// Step is the newest step of this leader, with the blockers that /status shows;
	// the zero Step if this sidecar does not lead.
	Step protocol.Step
	// Absences is since when this leader has seen nodes without presence.
	Absences map[protocol.NodeID]report.Absence
}

// Etcd is the connection's report, and facts for decisions.
type Etcd struct {
	report.Etcd
	// Reached: etcd has answered at least once.
	Reached bool
	// Full: etcd refuses writes, because its database is full.
	Full bool
}

// APIServer is the state of this node's kube-apiserver for the check `apiserver`
// (--apiserver-readyz). Package apiserver polls it; no probe does.
type APIServer struct {
	Enabled bool // the check is a part of /readyz
	Ready   bool
	Message string // why it is not ready; empty if it is
	// Refused: it answers, and rejects the credentials of the kubeconfig, so it is not known
	// whether it is ready.
	Refused bool
	Since   time.Time // when Ready last changed; zero: it was not asked yet
	// Turn is since when this node has a turn, whose work may restart the kube-apiserver; zero: it has none, or the
	// kube-apiserver was asked since. TurnOver: that work is done.
	Turn     time.Time
	TurnOver bool
}

// Problem returns the reason why it is not ready.
func (a APIServer) Problem() (protocol.Reason, string) {
	switch {
	case a.Refused:
		return protocol.APIRefused, "its kube-apiserver answers, and rejects the credentials of the kubeconfig, so whether it is ready is not known: " + a.Message
	case a.Message == "" && a.Turn.IsZero():
		return protocol.APIServerNotReady, "its kube-apiserver counts as not ready: it was not asked yet since this sidecar started"
	case a.Message == "" && a.TurnOver:
		return protocol.APIServerNotReady, "its kube-apiserver counts as not ready: it was not asked yet since the work of this node's turn was done"
	case a.Message == "":
		return protocol.APIServerNotReady, "its kube-apiserver counts as not ready since " + a.Turn.UTC().Format(time.RFC3339) +
			": this node has a turn, whose work may restart it"
	case !a.Turn.IsZero() && !a.TurnOver:
		return protocol.APIServerNotReady, "its kube-apiserver is not ready, in this node's turn, whose work may restart it: " + a.Message
	}
	return protocol.APIServerNotReady, "its kube-apiserver is not ready: " + a.Message
}
