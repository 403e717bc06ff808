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
	// RollbackEnds: the time of a rollback is nearly over, and it is not done. Begin it again
	// for longer, or start the rest of the nodes with its release.
	RollbackEnds Reason = "RollbackEnds"
	// APIUnreachable: the kube-apiserver of the leader's node stays unreachable, or
	// answers only with errors (docs/protocol.md#yielding).
	APIUnreachable Reason = "APIUnreachable"
	// APIRefused: the kube-apiserver of this node rejects the kubeconfig's user:
	// it answers 401 or 403 (docs/protocol.md#yielding).
	APIRefused Reason = "APIRefused"
)

// Reasons of warnings, and of obstacles to the next upgrade
// (docs/protocol.md#upgrade-ready).
const (
	// UpgradeUnderWay: the status is not DONE at the release of all registered
	// controllers, or there is no status. Wait for the leader and its blockers.
	UpgradeUnderWay Reason = "UpgradeUnderWay"
	// TurnUnderWay: a node holds a turn: people or programs work on it. Wait until it
	// ends.
	TurnUnderWay Reason = "TurnUnderWay"
	// TurnFailed: the work of a turn failed, or its services do not become ready, and no
	// other node gets one. Repair that, or end the turn.
	TurnFailed Reason = "TurnFailed"
	// TurnOverdue: a turn is over its limit, and no other node gets one. End the work, or the
	// turn.
	TurnOverdue Reason = "TurnOverdue"
	// EtcdUnreachable: etcd does not answer this sidecar, so it cannot know the
	// fleet or campaign. Check etcd.
	EtcdUnreachable Reason = "EtcdUnreachable"
	// EtcdFull: the database of etcd is full, so it refuses writes: a node that is
	// upgraded could not register. Make space in it.
	EtcdFull Reason = "EtcdFull"
	// EtcdNearlyFull: the database of an etcd member uses most of its quota. Make space
	// before etcd refuses writes.
	EtcdNearlyFull Reason = "EtcdNearlyFull"
	// MemberDown: a voter of the etcd that the sidecars run is not healthy, and if an
	// upgrade stops another one, etcd accepts no writes. Start its sidecar, or remove it.
	MemberDown Reason = "MemberDown"
	// NodeDead: a registered controller is not alive. Start it again, or if it stopped for
	// good, remove its record.
	NodeDead Reason = "NodeDead"
	// Outage: no kube-apiserver would serve while one node is stopped. Bring more nodes into
	// service first.
	Outage Reason = "Outage"
	// NodeWithdrawn: a sidecar withdrew from the election, because it cannot use its
	// kube-apiserver. Repair that; the node's warnings name the cause.
	NodeWithdrawn Reason = "NodeWithdrawn"
	// NoLeader: no alive controller leads. See the warnings of the nodes.
	NoLeader Reason = "NoLeader"
	// NoGate: a controller is alive and reports no gate. Check whether two
	// sidecars use its node ID.
	NoGate Reason = "NoGate"
	// GateClosed: the gate of a controller that is alive is closed, for a reason that does
	// not follow from an upgrade that is under way. That node says why.
	GateClosed Reason = "GateClosed"
	// BundlesDiffer: nodes of one release run different bundles of one name. Give them the
	// same one.
	BundlesDiffer Reason = "BundlesDiffer"
	// APIServersDiffer: nodes of one release run kube-apiservers of different versions.
	// The gate compares releases, so it cannot see that: give them the same one.
	APIServersDiffer Reason = "APIServersDiffer"
	// ServicesDiffer: nodes of one release run different services. Give them the same
	// files.
	ServicesDiffer Reason = "ServicesDiffer"
	// OtherBundle: a node's bundle and the objects' bundle differ in name. Start the node
	// with the right one, or type `sidecar bundle replace`.
	OtherBundle Reason = "OtherBundle"
	// BundleRejected: the bundle in a sidecar's directory is invalid. Repair the directory.
	BundleRejected Reason = "BundleRejected"
	// BundleWaits: the bundle in a sidecar's directory is valid, and of another release or with
	// other constraints. Start the sidecar again when that is meant.
	BundleWaits Reason = "BundleWaits"
	// MemberLeaves: a node that is off lost the role of a member of etcd. It leaves the
	// cluster when its sidecar starts again.
	MemberLeaves Reason = "MemberLeaves"
	// RemovalInterrupted: the removal of a voter of etcd was decided, and not carried out. Type it
	// again.
	RemovalInterrupted Reason = "RemovalInterrupted"
	// ServicesRejected: a file in a sidecar's services directory is invalid. Correct it.
	ServicesRejected Reason = "ServicesRejected"
	// ServiceFailing: a service of the node ended, was started again, and is not ready. Its
	// last lines are in the status of that node.
	ServiceFailing Reason = "ServiceFailing"
	// ClocksDiffer: the clocks of two nodes differ. Correct the wrong one
	// (docs/protocol-nodes.md#clocks).
	ClocksDiffer Reason = "ClocksDiffer"
	// CordonOver: a cordon with an end was over, by the node's clock, when its sidecar read
	// it. Compare the clocks of the node and of the machine where it was typed.
	CordonOver Reason = "CordonOver"
	// DiskSlow: the disk of a node's etcd member is slow. Find out what else uses it.
	DiskSlow Reason = "DiskSlow"
	// SnapshotOld: a node saves snapshots of etcd by itself, and its newest one is missing or too old.
	// The message says why.
	SnapshotOld Reason = "SnapshotOld"
	// EtcdLeaderChanges: the leader of the etcd that the sidecars run changes again and
	// again. Check the members that stop answering, and the network between them.
	EtcdLeaderChanges Reason = "EtcdLeaderChanges"
	// ServiceNotReady: a service of the node runs, and did not become ready within a
	// minute. The message contains the answer of its probe.
	ServiceNotReady Reason = "ServiceNotReady"
	// OptionalServiceFailing: a service with `required: false` ended, or does not become
	// ready. It holds nothing. Its last lines are in the status of that node.
	OptionalServiceFailing Reason = "OptionalServiceFailing"
	// OverrideRejected: the override file of a sidecar is invalid. Write it with
	// `sidecar override begin`.
	OverrideRejected Reason = "OverrideRejected"
	// WorkerFailed: a part of the sidecar failed or panicked, and was started again. Read
	// the log, and report it.
	WorkerFailed Reason = "WorkerFailed"
	// RemovalsHeld: a brake keeps objects that the bundle dropped
	// (docs/operations.md#a-brake-on-removals).
	RemovalsHeld Reason = "RemovalsHeld"
	// ObjectFailed: the kube-apiserver rejects objects of the bundle. Change the
	// manifests.
	ObjectFailed Reason = "ObjectFailed"
	// Fight: another writer changes an object of the bundle again and again. Stop
	// that writer.
	Fight Reason = "Fight"
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
