package protocol

// Reason is a stable CamelCase word that says why. It stands in /readyz,
// /status, presences and metrics, and people write alerts on it: a Reason is
// never renamed. The empty Reason means "there is nothing to say".
type Reason string

// Reasons of a verdict (DESIGN 4.8).
const (
	// Ready: the node may serve.
	Ready Reason = "Ready"
	// Starting: this sidecar has not reached etcd yet. Look at etcd, the
	// network to it, and the client certificate.
	Starting Reason = "Starting"
	// NotController: the node's record lacks the role kubernetes_controller.
	// `sidecar node set-roles` gives it.
	NotController Reason = "NotController"
	// NotRegistered: etcd does not hold a record that tells what this node
	// runs, or the status has not been read since it does. Heals itself.
	NotRegistered Reason = "NotRegistered"
	// StatusMissing: no leader has finished the first reconciliation.
	StatusMissing Reason = "StatusMissing"
	// StatusCorrupt: the status key holds what nobody can decode. The leader
	// rebuilds it.
	StatusCorrupt Reason = "StatusCorrupt"
	// ReleaseTooOld: the node's release is below the minimum that the objects
	// need. Upgrade the node.
	ReleaseTooOld Reason = "ReleaseTooOld"
	// ReconcilerTooOld: the objects were reconciled by a release below the
	// minimum that this node needs. It waits for the leader.
	ReconcilerTooOld Reason = "ReconcilerTooOld"
	// DuplicateNodeID: another sidecar has this node's ID.
	DuplicateNodeID Reason = "DuplicateNodeID"
	// Fenced: this sidecar could not confirm its presence for so long that
	// leaders may soon pass over its record (--expire-dead-nodes). Look at etcd;
	// it heals itself when etcd answers.
	Fenced Reason = "Fenced"
	// ShuttingDown: the sidecar was told to stop.
	ShuttingDown Reason = "ShuttingDown"
)

// Reasons of a blocker and of a step that waits.
const (
	// RecordCorrupt: a node record that cannot be decoded, lacks a version, or
	// stands under a key that is not its ID. `sidecar node remove` removes it;
	// its owner, if alive, writes it again.
	RecordCorrupt Reason = "RecordCorrupt"
	// NewerRelease: a record of a release above the leader's, while the
	// objects are that release's (HoldForNewer).
	NewerRelease Reason = "NewerRelease"
	// NewerAlive: a newer controller is alive and should lead (4.4).
	NewerAlive Reason = "NewerAlive"
	// APIUnreachable: the leader's own apiserver stays out of reach, or refuses
	// its user (4.7).
	APIUnreachable Reason = "APIUnreachable"
)

// Reasons lists every reason of a verdict, for metrics and documentation.
func Reasons() []Reason {
	return []Reason{
		Ready, Starting, NotController, NotRegistered, StatusMissing, StatusCorrupt,
		ReleaseTooOld, ReconcilerTooOld, DuplicateNodeID, Fenced, ShuttingDown,
	}
}
