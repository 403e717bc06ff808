package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NodeID names a node: a DNS subdomain, by default the host name.
type NodeID string

// NodeNames returns IDs as text.
func NodeNames(ids []NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// Constraints are a bundle's conditions, written by people. Neither may be above
// the bundle's release. The zero value requires nothing.
type Constraints struct {
	MinReconciler Release // M: the objects must be at least of this release before the node serves
	MinAPIServer  Release // A: all controllers must be at least of this release before the objects are applied
}

// Validate returns an error that says which constraint is above the release, or
// nil.
func (c Constraints) Validate(own Release) error {
	if own.Less(c.MinReconciler) {
		return fmt.Errorf("minReconcilerRelease %s is above the release %s: the node could never become ready", c.MinReconciler, own)
	}
	if own.Less(c.MinAPIServer) {
		return fmt.Errorf("minApiserverRelease %s is above the release %s: the objects would shut out their own release", c.MinAPIServer, own)
	}
	return nil
}

// Local describes this sidecar and its bundle.
type Local struct {
	ID          NodeID
	Version     Version
	Constraints Constraints
	Digest      string // of the bundle
	// Bundle is the name of the bundle (docs/protocol.md#bundle-names); empty: the bundle
	// is unnamed, and no name is compared.
	Bundle string
	Epoch  int64 // of its leadership; 0 while it does not lead
	// APIServer is the version of kube-apiserver that the bundle is for; empty: any
	// (docs/protocol-nodes.md#apiserver-version).
	APIServer string
	// PruneImmediately: removals do not wait for controllers of older releases
	// (prunePolicy: Immediately; docs/protocol-objects.md#removals).
	PruneImmediately bool
	// ExpireAfter is how long its presence may be missing before leaders ignore its
	// record (--expire-dead-nodes); 0: they never do (docs/protocol-nodes.md#dead-nodes).
	ExpireAfter time.Duration
	// Ephemeral: its ID does not return, so its record is deleted after it stops or
	// expires (--ephemeral; docs/protocol-nodes.md#ephemeral).
	Ephemeral bool
	// EtcdElectionTimeout is the election timeout of the etcd behind the API servers
	// (--etcd-election-timeout); 0: DefaultElectionTimeout.
	EtcdElectionTimeout time.Duration
}

// Node is the content of a node record.
type Node struct {
	ID            NodeID
	Roles         Roles
	Version       Version
	MinReconciler Release
	Address       string // of the sidecar's listener; empty: unknown
	Digest        string // of its bundle
	Bundle        string // the name of its bundle; empty: unknown
	BootID        string
	// Serves: the sidecar registered with the controller role, so its gate may be
	// open, even if people took the role away afterwards.
	Serves      bool
	ExpireAfter time.Duration // as in Local
	Ephemeral   bool          // as in Local
	Cordon      Cordon        // the zero Cordon: the node is in service
}

// Record is a node record as read from its key, together with its presence.
type Record struct {
	ID       NodeID // from the key
	Node     Node   // the value; only its decodable part where Problem is set
	Problem  string // why the record is corrupt; empty: it is valid
	Revision int64  // the key's mod revision
	Created  int64  // the key's create revision
	Writes   int64  // how often the key was written since it was created

	Alive      bool // its presence exists
	Presence   Presence
	Votes      bool          // its member votes in the etcd that the sidecars run; only messages depend on it
	Removed    MemberRemoval // of that member, since the record was written; only messages depend on it
	MayRestart bool          // missing, and it may be restarting (WithMayRestart); only messages depend on it
	// Gone is how long the presence was missing while the record was not written: a
	// lower bound, by the clock of the leader that decides. It is 0 if the node is
	// alive, its record never expires, or no leader counts (docs/protocol-nodes.md#dead-nodes).
	Gone time.Duration
}

// Presence is a live sidecar's report about itself.
type Presence struct {
	Instance  string
	MachineID string
	Ready     bool
	Reason    Reason
	Election  ElectionState
	Host      string // the name of its machine; empty: unknown
	Address   string // of its listener; empty: unknown
	Warnings  []Warning
	Endpoint  Endpoint // of its kube-apiserver; the zero Endpoint: it does not take part
	Failing   int      // of a leader: how many required objects it cannot apply
	// APIServerDown: its kube-apiserver is not ready, according to --apiserver-readyz.
	APIServerDown bool
	// APIServer is the version that its kube-apiserver reports; empty: unknown.
	APIServer string
	// Services is the digest of its services; empty: none.
	Services string
	// Written is when the sidecar wrote the presence, by its own clock; zero: unknown.
	Written  time.Time
	Revision int64 // the key's mod revision
}

// Warning is a problem that a sidecar reports. Its presence carries it, so that
// each node can show it.
type Warning struct {
	Reason  Reason
	Subject string    // the node or object that it is about; empty: the sidecar itself
	Message string    // the problem and the remedy
	Since   time.Time // zero: unknown
}

// Limits of the warnings in a presence: every sidecar reads all presences.
const (
	MaxWarnings       = 8
	MaxWarningMessage = 1024 // bytes
)

// ElectionState is a sidecar's part in the election. The empty value: it did not
// report one.
type ElectionState string

// The election states, as presences and /status show them.
const (
	Ineligible  ElectionState = "ineligible"  // a newer controller is alive, or it is not a registered controller
	Campaigning ElectionState = "campaigning" // waits in the queue of candidates
	Leading     ElectionState = "leading"     // its leadership is confirmed
	Withdrawn   ElectionState = "withdrawn"   // it cannot use its kube-apiserver (docs/protocol.md#yielding)
)

// Counts reports whether the record belongs to the fleet: it is corrupt, or carries
// the controller role.
func (r *Record) Counts() bool { return r.Problem != "" || r.Node.Roles.Controller }

// MayServe reports whether the gate of the node may be open: the record counts, or
// people took the controller role away and the sidecar did not register since
// (docs/protocol-nodes.md#registration).
func (r *Record) MayServe() bool { return r.Counts() || r.Node.Serves }

// Fleet is all node records and presences at one etcd revision
// (docs/protocol.md#snapshots).
type Fleet struct {
	Revision int64
	// Rewinds is how often the store went back before, as after a restore from a
	// backup. Revisions compare only if it is equal.
	Rewinds int
	// Rollback is the one that people asked for, read at the same revision.
	Rollback Rollback
	// Turns of the nodes, read at the same revision.
	Turns Turns
	// Records are sorted by ID. Successive fleets share their unchanged records, so a
	// record must not be modified.
	Records []*Record
}

// Record returns the record of id, if there is one.
func (f Fleet) Record(id NodeID) (Record, bool) {
	i, found := slices.BinarySearchFunc(f.Records, id, func(r *Record, id NodeID) int { return cmp.Compare(r.ID, id) })
	if !found {
		return Record{}, false
	}
	return *f.Records[i], true
}

// Summary is a fleet in four numbers. Min and Max include the local release.
type Summary struct {
	Min, Max    Release
	Controllers int // valid records with the controller role
	Corrupt     int // corrupt records
}

// Summarize counts the controllers of f and finds the lowest and highest release
// among them and local.
func Summarize(f Fleet, local Release) Summary {
	s := Summary{Min: local, Max: local}
	for _, r := range f.Records {
		switch {
		case r.Problem != "":
			s.Corrupt++
		case r.Node.Roles.Controller:
			s.Controllers++
			s.Min = slices.MinFunc([]Release{s.Min, r.Node.Version.Release}, Release.Compare)
			s.Max = slices.MaxFunc([]Release{s.Max, r.Node.Version.Release}, Release.Compare)
		}
	}
	return s
}

// AliveController reports whether a node with the controller role is alive.
func (r *Record) AliveController() bool { return r.Problem == "" && r.Node.Roles.Controller && r.Alive }

// maxNamed bounds how many nodes a sentence names.
const maxNamed = 8

// RecordNames lists nodes for a sentence.
func RecordNames(of []*Record) string {
	var out []string
	for i, r := range of {
		if i == maxNamed {
			return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), len(of)-i)
		}
		out = append(out, string(r.ID))
	}
	return strings.Join(out, ", ")
}
