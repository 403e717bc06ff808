package protocol

// Rule names the rule of the leader that decided a step. Operators see the name
// in /status, in the table of `sidecar status` and in the log, so a rule is
// never renamed. The empty Rule means "no step".
type Rule string

// The rules of the leader, in the order in which Next evaluates them: the first
// one that applies decides. L is the leader's release, A its
// minApiserverRelease; the target is DONE with its own version and A
// (docs/protocol.md#leader-rules).
const (
	// ResignWithoutRole: the leader's record no longer lists the controller
	// role. It is asked before ResignToNewer because only people can give the
	// role back, while a newer controller may stop at any time: the reason
	// shown is the one that lasts longer
	// (docs/protocol.md#rule-resign-without-role).
	ResignWithoutRole Rule = "ResignWithoutRole"
	// ResignCordoned: people took the leader's node out of service
	// (docs/protocol.md#rule-resign-cordoned).
	ResignCordoned Rule = "ResignCordoned"
	// ResignForRollback: people roll back to another release than L. It resigns
	// (docs/protocol.md#rule-resign-for-rollback).
	ResignForRollback Rule = "ResignForRollback"
	// ResignToNewer: a controller of a newer release is alive and should lead
	// (docs/protocol.md#rule-resign-to-newer).
	ResignToNewer Rule = "ResignToNewer"
	// YieldUnreachable: this node's kube-apiserver stays unreachable, or rejects
	// the kubeconfig's user. The leader resigns and withdraws
	// (docs/protocol.md#rule-yield-unreachable).
	YieldUnreachable Rule = "YieldUnreachable"
	// AwaitStatus: the status has not been read yet, so the leader does nothing
	// (docs/protocol.md#rule-await-status).
	AwaitStatus Rule = "AwaitStatus"
	// HoldForStore: the parent of the objects carries the ID of another store.
	// The leader does nothing until the IDs are equal
	// (docs/protocol.md#rule-hold-for-store).
	HoldForStore Rule = "HoldForStore"
	// HoldForBundle: the objects are of a bundle with another name than the leader's. The
	// leader does nothing until people say that they mean it
	// (docs/protocol.md#rule-hold-for-bundle).
	HoldForBundle Rule = "HoldForBundle"
	// FirstReconciliation: there is no status, and no first reconciliation was
	// ever finished, or this leader has just finished it. It reconciles, and only
	// then writes the target (docs/protocol.md#rule-first-reconciliation).
	FirstReconciliation Rule = "FirstReconciliation"
	// RebuildStatus: there is no status, but the mark shows that there was one.
	// The leader writes a status that covers all content that the mark names
	// (docs/protocol.md#rule-rebuild-status).
	RebuildStatus Rule = "RebuildStatus"
	// HoldForNewer: the objects are of a release above L, and a controller of a
	// release above L is registered, alive or not. The leader does nothing until
	// none is (docs/protocol.md#rule-hold-for-newer).
	HoldForNewer Rule = "HoldForNewer"
	// KeepTarget: the status is the target. The leader records its epoch,
	// reconciles once, and then keeps the objects
	// (docs/protocol.md#rule-keep-target).
	KeepTarget Rule = "KeepTarget"
	// ApplyContent: L is not below the status's version and A not above its
	// minimum, so the change shuts out no node. The leader writes WORKING,
	// reconciles, and writes the target (docs/protocol.md#rule-apply-content).
	ApplyContent Rule = "ApplyContent"
	// WaitForNodes: otherwise. The leader waits until every registered
	// controller fits the objects before and after, and then restricts the status
	// to such nodes; ApplyContent follows (docs/protocol.md#rule-wait-for-nodes).
	WaitForNodes Rule = "WaitForNodes"
)
