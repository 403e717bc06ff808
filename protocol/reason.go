package protocol

// Reason is a stable CamelCase word that says why. /readyz, /status, presences and
// metrics contain it, and people write alerts on it: a Reason is never renamed.
// The empty Reason means "no reason".
type Reason string

// Reasons of a verdict (docs/protocol-nodes.md#gate).
const (
	// Ready: the node may serve.
	Ready Reason = "Ready"
	// Starting: this sidecar has not reached etcd yet. Check etcd, the
	// network to it, and the client certificate.
	Starting Reason = "Starting"
	// NotController: the node's record does not list the role
	// kubernetes_controller. `sidecar node set-roles` gives it.
	NotController Reason = "NotController"
	// NotRegistered: the node's record in etcd does not match the running sidecar,
	// or the status was not read since the record was written. Heals by itself.
	NotRegistered Reason = "NotRegistered"
	// ServicesNotReady: the services of this node are not ready yet, or are about to
	// stop (docs/protocol-nodes.md#services).
	ServicesNotReady Reason = "ServicesNotReady"
	// OtherAPIServer: the kube-apiserver of this node is not the one that the bundle is for, or
	// did not report its version yet. Start the kube-apiserver of the release
	// (docs/protocol-nodes.md#apiserver-version).
	OtherAPIServer Reason = "OtherAPIServer"
	// Cordoned: people took the node out of service. `sidecar uncordon` ends that
	// (docs/protocol-nodes.md#cordons).
	Cordoned Reason = "Cordoned"
	// Overridden: people let the node serve although its gate is closed. It ends by
	// itself, or with `sidecar override end` (docs/protocol-nodes.md#overrides).
	Overridden Reason = "Overridden"
	// StatusMissing: no leader finished the first reconciliation yet.
	StatusMissing Reason = "StatusMissing"
	// StatusCorrupt: the status key cannot be decoded. The leader rebuilds it.
	StatusCorrupt Reason = "StatusCorrupt"
	// ReleaseTooOld: the node's release is below the minimum that the objects
	// need. Upgrade the node.
	ReleaseTooOld Reason = "ReleaseTooOld"
	// ReconcilerTooOld: the objects are of a release below the minimum that this
	// node needs. It waits for the leader.
	ReconcilerTooOld Reason = "ReconcilerTooOld"
	// DuplicateNodeID: another sidecar uses this node's ID.
	DuplicateNodeID Reason = "DuplicateNodeID"
	// Fenced: this sidecar could not confirm its presence for so long that
	// leaders may soon ignore its record (--expire-dead-nodes). Check etcd; the
	// node registers again when etcd answers.
	Fenced Reason = "Fenced"
	// ShuttingDown: the sidecar is shutting down.
	ShuttingDown Reason = "ShuttingDown"
)

// Reasons of a blocker and of a step that waits.
const (
	// RecordCorrupt: a node record cannot be decoded, contains no version, or is
	// under a key that is not its ID. `sidecar node remove` removes it. Its
	// sidecar writes it again if it is alive.
	RecordCorrupt Reason = "RecordCorrupt"
	// NewerRelease: a node above the leader's release is registered, and the
	// objects are above it, too (docs/protocol.md#rule-hold-for-newer).
	NewerRelease Reason = "NewerRelease"
	// NewerAlive: a newer controller is alive and should lead
	// (docs/protocol.md#eligibility).
	NewerAlive Reason = "NewerAlive"
	// RollingBack: people bring the objects of an older release back, and only nodes of that
	// release lead (docs/protocol-objects.md#rollback). It also holds the next upgrade.
	RollingBack Reason = "RollingBack"
	// APIUnreachable: the kube-apiserver of the leader's node stays unreachable, or
	// answers only with errors (docs/protocol.md#yielding).
	APIUnreachable Reason = "APIUnreachable"
	// APIRefused: the kube-apiserver of this node rejects the kubeconfig's user:
	// it answers 401 or 403 (docs/protocol.md#yielding).
	APIRefused Reason = "APIRefused"
)

// Reasons of warnings that other decisions use, too. Package warn declares the rest.
const (
	// ServiceFailing: a service of the node ended, was started again, and is not ready. Its
	// last lines are in the status of that node.
	ServiceFailing Reason = "ServiceFailing"
	// ServiceNotReady: a service of the node runs, and did not become ready within a
	// minute. The message contains the answer of its probe.
	ServiceNotReady Reason = "ServiceNotReady"
)

// Reasons for the contents of the Service kubernetes that other decisions use, too. Package publish declares the rest
// (docs/protocol-endpoints.md#kubernetes-service).
const (
	// OtherStore: the Service carries the ID of another store, and the parent of the
	// objects does not carry this one's.
	OtherStore Reason = "OtherStore"
	// ReconcilerRuns: a kube-apiserver writes the Service itself. Start every kube-apiserver
	// with --endpoint-reconciler-type=none.
	ReconcilerRuns Reason = "ReconcilerRuns"
	// OtherWriter: another client overwrites Lockstep's writes. Stop it.
	OtherWriter Reason = "OtherWriter"
	// NoPresence: a node's sidecar does not run, or does not reach etcd.
	NoPresence Reason = "NoPresence"
	// APIServerNotReady: the kube-apiserver of a node is not ready (--apiserver-readyz).
	APIServerNotReady Reason = "APIServerNotReady"
)

// Reasons lists every reason of a verdict, for metrics and documentation.
func Reasons() []Reason {
	return []Reason{
		Ready, Starting, NotController, NotRegistered, ServicesNotReady, OtherAPIServer, Cordoned, Overridden, StatusMissing, StatusCorrupt,
		ReleaseTooOld, ReconcilerTooOld, DuplicateNodeID, Fenced, ShuttingDown,
	}
}
