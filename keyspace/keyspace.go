// Package keyspace names Lockstep's keys in etcd (docs/protocol.md#keys). It does not
// know their values: package fleet owns the values of node records, presences, turns,
// notices of duplicate node IDs and the store ID, package status the status, package
// election the values of candidates, the rollback and the replacement,
// package internal/journal the journal, packages internal/cluster/record and internal/cluster/token the
// values below cluster/.
package keyspace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Keys are the keys of one cluster. All begin with the same prefix.
type Keys struct {
	prefix string
}

// Under returns the keys under prefix. It adds a missing slash at the end.
func Under(prefix string) Keys {
	return Keys{prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

// Nodes returns the prefix of the node records.
func (k Keys) Nodes() string { return k.prefix + "nodes/" }

// Node returns the key of a node record.
func (k Keys) Node(id protocol.NodeID) string { return k.Nodes() + string(id) }

// Presences returns the prefix of the presences.
func (k Keys) Presences() string { return k.prefix + "presence/" }

// Presence returns the key of a presence.
func (k Keys) Presence(id protocol.NodeID) string { return k.Presences() + string(id) }

// Duplicate returns the key of a sidecar's notice that it exited because another one
// uses its node ID.
func (k Keys) Duplicate(id protocol.NodeID) string { return k.prefix + "duplicates/" + string(id) }

// Status returns the key of the reconciler status. There is only one.
func (k Keys) Status() string { return k.prefix + "kubernetes/reconciler/status" }

// Replacement returns the key with which people let one bundle replace another. It begins
// with the status's key, so that one watch covers both.
func (k Keys) Replacement() string { return k.Status() + "/replacement" }

// Rollback returns the key with which people bring the objects of an older release back.
func (k Keys) Rollback() string { return k.prefix + "kubernetes/reconciler/rollback" }

// History returns the prefix of the journal of events (docs/history.md).
func (k Keys) History() string { return k.prefix + "history/" }

// HistoryEntry returns the key of an entry of that journal.
func (k Keys) HistoryEntry(id string) string { return k.History() + id }

// Turns returns the prefix of all keys about turns (docs/protocol-nodes.md#turns).
func (k Keys) Turns() string { return k.prefix + "turns/" }

// TurnLimit returns the key of how many nodes may hold a turn.
func (k Keys) TurnLimit() string { return k.Turns() + "limit" }

// TurnsHeld returns the prefix of the turns that nodes hold.
func (k Keys) TurnsHeld() string { return k.Turns() + "held/" }

// Turn returns the key of the turn of a node.
func (k Keys) Turn(id protocol.NodeID) string { return k.TurnsHeld() + string(id) }

// TurnsWaiting returns the prefix of the nodes that wait for a turn.
func (k Keys) TurnsWaiting() string { return k.Turns() + "waiting/" }

// TurnWaiting returns the key of a node that waits for a turn, on the lease of who waits.
func (k Keys) TurnWaiting(id protocol.NodeID) string { return k.TurnsWaiting() + string(id) }

// TurnsRunning returns the prefix of the commands that run in turns.
func (k Keys) TurnsRunning() string { return k.Turns() + "running/" }

// TurnRunning returns the key of a command that runs in the turn of a node, or waits for it, on
// the lease of that command.
func (k Keys) TurnRunning(id protocol.NodeID) string { return k.TurnsRunning() + string(id) }

// Store returns the key of the store ID. There is only one.
func (k Keys) Store() string { return k.prefix + "store" }

// Leaders returns the prefix of the candidates' keys. The candidate whose key
// has the lowest create revision leads. The layout is the same as in the etcd
// client's concurrency.Election (docs/upstream.md#etcd-election-layout).
func (k Keys) Leaders() string { return k.prefix + "kubernetes/reconciler/leader/" }

// Leader returns the key of the candidate that holds a lease.
func (k Keys) Leader(lease int64) string { return fmt.Sprintf("%s%x", k.Leaders(), lease) }

// Cluster returns the key of the etcd cluster that the sidecars run themselves
// (docs/clusters.md#keys). It is missing if the etcd is another one.
func (k Keys) Cluster() string { return k.prefix + "cluster/record" }

// ClusterMembers returns the prefix of the members of that cluster.
func (k Keys) ClusterMembers() string { return k.prefix + "cluster/members/" }

// ClusterMember returns the key of a member.
func (k Keys) ClusterMember(id uint64) string { return k.ClusterMembers() + MemberID(id) }

// ClusterLearners returns the prefix of the members that are not voters yet.
func (k Keys) ClusterLearners() string { return k.prefix + "cluster/learners/" }

// ClusterLearner returns the key of a member that is not a voter yet.
func (k Keys) ClusterLearner(id uint64) string { return k.ClusterLearners() + MemberID(id) }

// RemovedMembers returns the prefix of the members that operators removed.
func (k Keys) RemovedMembers() string { return k.prefix + "cluster/removed/" }

// RemovedMember returns the key of a member that an operator removed.
func (k Keys) RemovedMember(id uint64) string { return k.RemovedMembers() + MemberID(id) }

// ClusterLock returns the key that a sidecar holds, on a lease, while it changes the
// members.
func (k Keys) ClusterLock() string { return k.prefix + "cluster/lock" }

// JoinTokens returns the prefix of the tokens that let nodes join the cluster.
func (k Keys) JoinTokens() string { return k.prefix + "cluster/tokens/" }

// JoinToken returns the key of a token, by its ID.
func (k Keys) JoinToken(id string) string { return k.JoinTokens() + id }

// Rotation returns the key of the replacement of the cluster's CA. It is missing if there never
// was one.
func (k Keys) Rotation() string { return k.prefix + "cluster/rotation" }

// RotationReports returns the prefix of the nodes' own reports in a rotation.
func (k Keys) RotationReports() string { return k.prefix + "cluster/rotating/" }

// RotationReport returns the key of a node's own report in a rotation.
func (k Keys) RotationReport(id protocol.NodeID) string { return k.RotationReports() + string(id) }

// StoreParts lists the parts that contain all keys of a store, except the keys in
// ClusterParts. A part that ends with a slash is a range, any other is a key.
func (k Keys) StoreParts() []string {
	return []string{
		k.Nodes(), k.Presences(), k.Duplicate(""), k.Store(), k.Status(), k.Replacement(), k.Rollback(), k.Turns(),
		k.Leaders(), k.History(),
	}
}

// ClusterParts lists the parts that contain all keys of an etcd cluster that the
// sidecars run themselves, in the form of StoreParts.
func (k Keys) ClusterParts() []string {
	return []string{
		k.Cluster(), k.ClusterMembers(), k.ClusterLearners(), k.RemovedMembers(), k.ClusterLock(), k.JoinTokens(),
		k.Rotation(), k.RotationReports(),
	}
}

// MayBeSecret reports whether the values of a key, or of a part of ClusterParts, are of no use to people and may let
// them into the cluster: the hashes of join tokens, and a replacement of the CA.
func (k Keys) MayBeSecret(key string) bool {
	secrets := []string{k.JoinTokens(), k.Rotation(), k.RotationReports()}
	return slices.ContainsFunc(secrets, func(part string) bool { return strings.HasPrefix(key, part) })
}

// MemberID is the text of a member's ID, in keys and for people: the same as in
// etcd's own commands.
func MemberID(id uint64) string { return strconv.FormatUint(id, 16) }

// ParseMemberID is the inverse of MemberID, also with leading zeros or upper case. It
// reports whether text is an ID.
func ParseMemberID(text string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(text, 16, 64)
	return id, err == nil && id != 0
}

// MemberOf returns the member ID at the end of a key; 0: there is none.
func MemberOf(key string) uint64 {
	id, ok := ParseMemberID(key[strings.LastIndex(key, "/")+1:])
	if !ok || !strings.HasSuffix(key, "/"+MemberID(id)) {
		return 0
	}
	return id
}

// NodeOf returns the node ID in the key of a node record or a presence.
func (k Keys) NodeOf(key string) protocol.NodeID {
	if id, isRecord := strings.CutPrefix(key, k.Nodes()); isRecord {
		return protocol.NodeID(id)
	}
	return protocol.NodeID(strings.TrimPrefix(key, k.Presences()))
}
