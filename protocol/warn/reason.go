package warn

import "github.com/lockstep-dev/lockstep/protocol"

// Reasons of warnings, and of obstacles to the next upgrade
// (docs/protocol.md#upgrade-ready).
const (
	// UpgradeUnderWay: the status is not DONE at the release of all registered
	// controllers, or there is no status. Wait for the leader and its blockers.
	UpgradeUnderWay protocol.Reason = "UpgradeUnderWay"
	// TurnUnderWay: a node holds a turn: people or programs work on it. Wait until it
	// ends.
	TurnUnderWay protocol.Reason = "TurnUnderWay"
	// TurnFailed: the work of a turn failed, or its services do not become ready, and no
	// other node gets one. Repair that, or end the turn.
	TurnFailed protocol.Reason = "TurnFailed"
	// TurnOverdue: a turn is over its limit, and no other node gets one. End the work, or the
	// turn.
	TurnOverdue protocol.Reason = "TurnOverdue"
	// RollbackEnds: the time of a rollback is nearly over, and it is not done. Begin it again
	// for longer, or start the rest of the nodes with its release.
	RollbackEnds protocol.Reason = "RollbackEnds"
	// EtcdUnreachable: etcd does not answer this sidecar, so it cannot know the
	// fleet or campaign. Check etcd.
	EtcdUnreachable protocol.Reason = "EtcdUnreachable"
	// EtcdFull: the database of etcd is full, so it refuses writes: a node that is
	// upgraded could not register. Make space in it.
	EtcdFull protocol.Reason = "EtcdFull"
	// EtcdNearlyFull: the database of an etcd member uses most of its quota. Make space
	// before etcd refuses writes.
	EtcdNearlyFull protocol.Reason = "EtcdNearlyFull"
	// MemberDown: a voter of the etcd that the sidecars run is not healthy, and if an
	// upgrade stops another one, etcd accepts no writes. Start its sidecar, or remove it.
	MemberDown protocol.Reason = "MemberDown"
	// NodeDead: a registered controller is not alive. Start it again, or if it stopped for
	// good, remove its record.
	NodeDead protocol.Reason = "NodeDead"
	// Outage: no kube-apiserver would serve while one node is stopped. Bring more nodes into
	// service first.
	Outage protocol.Reason = "Outage"
	// NodeWithdrawn: a sidecar withdrew from the election, because it cannot use its
	// kube-apiserver. Repair that; the node's warnings name the cause.
	NodeWithdrawn protocol.Reason = "NodeWithdrawn"
	// NoLeader: no alive controller leads. See the warnings of the nodes.
	NoLeader protocol.Reason = "NoLeader"
	// NoGate: a controller is alive and reports no gate. Check whether two
	// sidecars use its node ID.
	NoGate protocol.Reason = "NoGate"
	// GateClosed: the gate of a controller that is alive is closed, for a reason that does
	// not follow from an upgrade that is under way. That node says why.
	GateClosed protocol.Reason = "GateClosed"
	// BundlesDiffer: nodes of one release run different bundles of one name. Give them the
	// same one.
	BundlesDiffer protocol.Reason = "BundlesDiffer"
	// APIServersDiffer: nodes of one release run kube-apiservers of different versions.
	// The gate compares releases, so it cannot see that: give them the same one.
	APIServersDiffer protocol.Reason = "APIServersDiffer"
	// ServicesDiffer: nodes of one release run different services. Give them the same
	// files.
	ServicesDiffer protocol.Reason = "ServicesDiffer"
	// OtherBundle: a node's bundle and the objects' bundle differ in name. Start the node
	// with the right one, or type `sidecar bundle replace`.
	OtherBundle protocol.Reason = "OtherBundle"
	// BundleRejected: the bundle in a sidecar's directory is invalid. Repair the directory.
	BundleRejected protocol.Reason = "BundleRejected"
	// BundleWaits: the bundle in a sidecar's directory is valid, and of another release or with
	// other constraints. Start the sidecar again when that is meant.
	BundleWaits protocol.Reason = "BundleWaits"
	// MemberLeaves: a node that is off lost the role of a member of etcd. It leaves the
	// cluster when its sidecar starts again.
	MemberLeaves protocol.Reason = "MemberLeaves"
	// RemovalInterrupted: the removal of a voter of etcd was decided, and not carried out. Type it
	// again.
	RemovalInterrupted protocol.Reason = "RemovalInterrupted"
	// ServicesRejected: a file in a sidecar's services directory is invalid. Correct it.
	ServicesRejected protocol.Reason = "ServicesRejected"
	// ServersReplaced: services use servers of etcd that left the cluster. Restart the sidecar of
	// that node while it is cordoned.
	ServersReplaced protocol.Reason = "ServersReplaced"
	// ClocksDiffer: the clocks of two nodes differ. Correct the wrong one
	// (docs/protocol-nodes.md#clocks).
	ClocksDiffer protocol.Reason = "ClocksDiffer"
	// CordonOver: a cordon with an end was over, by the node's clock, when its sidecar read
	// it. Compare the clocks of the node and of the machine where it was typed.
	CordonOver protocol.Reason = "CordonOver"
	// DiskSlow: the disk of a node's etcd member is slow. Find out what else uses it.
	DiskSlow protocol.Reason = "DiskSlow"
	// SnapshotOld: a node saves snapshots of etcd by itself, and its newest one is missing or too old.
	// The message says why.
	SnapshotOld protocol.Reason = "SnapshotOld"
	// EtcdLeaderChanges: the leader of the etcd that the sidecars run changes again and
	// again. Check the members that stop answering, and the network between them.
	EtcdLeaderChanges protocol.Reason = "EtcdLeaderChanges"
	// OptionalServiceFailing: a service with `required: false` ended, or does not become
	// ready. It holds nothing. Its last lines are in the status of that node.
	OptionalServiceFailing protocol.Reason = "OptionalServiceFailing"
	// OverrideRejected: the override file of a sidecar is invalid and has no effect, or cannot be read: what it had before
	// stays in force until its end. Write it with `sidecar override begin`.
	OverrideRejected protocol.Reason = "OverrideRejected"
	// WorkerFailed: a part of the sidecar failed or panicked, and was started again. Read
	// the log, and report it.
	WorkerFailed protocol.Reason = "WorkerFailed"
	// RemovalsHeld: a brake keeps objects that the bundle dropped
	// (docs/operations.md#a-brake-on-removals).
	RemovalsHeld protocol.Reason = "RemovalsHeld"
	// ObjectFailed: the kube-apiserver rejects objects of the bundle. Change the
	// manifests.
	ObjectFailed protocol.Reason = "ObjectFailed"
	// Fight: another writer changes an object of the bundle again and again. Stop
	// that writer.
	Fight protocol.Reason = "Fight"
)
