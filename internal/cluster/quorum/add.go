package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// addTimeout bounds one request to add a member. etcd needs less than a second, or
// never answers.
const addTimeout = 3 * time.Second

// Addition is a node to add.
type Addition struct {
	Node record.Member // without its ID
	// Joins: the node is new in the cluster. None is while the CA is replaced.
	Joins bool
	// After is called after each step, with its name. It is for tests; nil: nothing.
	After func(step string)
}

// Added is a node that was added, and the members as they are then.
type Added struct {
	Cluster record.Cluster
	ID      uint64
	Members []etcd.Member
}

// Find returns the ID under which an earlier attempt added a node; 0: none did. The error is why the key,
// the ID or the address of the node would be refused. Find changes nothing.
func Find(ctx context.Context, client *etcd.Client, node record.Member) (uint64, error) {
	id, _, err := observe(ctx, client, node)
	return id, err
}

// Read returns a member; nil: it is not in the list of the members. removed reports whether an operator
// removed a member with that key for good.
func Read(ctx context.Context, client *etcd.Client, id uint64, key pki.Hash) (m *View, removed bool, err error) {
	members, s, err := readMembers(ctx, client)
	if err != nil {
		return nil, false, err
	}
	removed = slices.ContainsFunc(s.removed, func(r record.Member) bool { return r.Key == key })
	i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.ID == id })
	if i < 0 {
		return nil, removed, nil
	}
	v := newView(members[i], s.members[id])
	return &v, removed, nil
}

// Add adds a node as a learner, or finds it among the members if an earlier attempt has
// added it. An attempt that ended before it wrote the record left a learner without
// one: Add adopts that learner, unless its node is known to be another one. Errors:
// InUseError, ErrRemoved, ErrWait, ErrBusy, or etcd's own.
func Add(ctx context.Context, client *etcd.Client, a Addition) (Added, error) {
	if a.After == nil {
		a.After = func(string) {}
	}
	var out Added
	err := locked(ctx, client, string(a.Node.Node), func(ctx context.Context) error {
		a.After("lock")
		var err error
		out, err = add(ctx, client, a)
		return err
	})
	return out, err
}

// add needs the lock.
func add(ctx context.Context, client *etcd.Client, a Addition) (Added, error) {
	id, s, err := observe(ctx, client, a.Node)
	if err != nil {
		return Added{}, err
	}
	if s.cluster == nil {
		return Added{}, ErrNoCluster
	}
	if id == 0 && a.Joins && s.rotation.Active() {
		return Added{}, ErrRotating
	}
	if _, recorded := s.members[id]; a.Joins && !recorded {
		if err := giveRole(ctx, client, a.Node.Node); err != nil {
			return Added{}, err
		}
	}
	if id == 0 {
		if id, err = addLearner(ctx, client, a.Node.PeerURL); err != nil {
			return Added{}, err
		}
	}
	a.After("add")
	members, err := client.Members(ctx)
	if err != nil {
		return Added{}, err
	}
	if err := writeRecords(ctx, client, s, members, id, a.Node); err != nil {
		return Added{}, err
	}
	a.After("record")
	return Added{Cluster: *s.cluster, ID: id, Members: members}, nil
}

// giveRole gives a node that joins the role of a member, before it is one: its record of before may not
// have it, and then the node would leave at once.
func giveRole(ctx context.Context, client *etcd.Client, node protocol.NodeID) error {
	return waitIfChanged(fleet.GiveConsensus(ctx, client, node), fmt.Sprintf("node %q", node))
}

// waitIfChanged returns ErrWait for a record that changed after it was read.
func waitIfChanged(err error, whose string) error {
	if errors.Is(err, etcd.ErrChanged) {
		return fmt.Errorf("%w: the record of %s has just changed", ErrWait, whose)
	}
	return err
}

// observe returns the node's member ID if an earlier attempt added it; 0: the caller
// must add it.
func observe(ctx context.Context, client *etcd.Client, node record.Member) (id uint64, s stored, err error) {
	members, s, err := readMembers(ctx, client)
	if err == nil {
		id, err = judgeAddition(node, members, s)
	}
	return id, s, err
}

// judgeAddition asks the protocol whether a node may be added, and returns its ID if it was.
func judgeAddition(node record.Member, members []etcd.Member, s stored) (uint64, error) {
	occupants, removed := make([]membership.Occupant, len(members)), make([]string, len(s.removed))
	for i, m := range members {
		r, known := s.members[m.ID]
		occupants[i] = membership.Occupant{
			PeerURLs: m.PeerURLs, Learner: m.Learner, Started: m.Name != "", Leaving: r.Leaving, Recorded: known, AddedNode: addedNode(r),
		}
	}
	for i, r := range s.removed {
		removed[i] = string(r.Key[:])
	}
	verdict, i := membership.JudgeAddition(addedNode(node), occupants, removed)
	inUse := func(what string) error {
		return &InUseError{What: what, Member: members[i].ID, Node: occupants[i].Node}
	}
	switch verdict {
	case membership.MayAdd:
		return 0, nil
	case membership.WasAdded:
		return members[i].ID, nil
	case membership.KeyRemoved:
		return 0, fmt.Errorf("node %q was removed from the cluster at %s; %w", s.removed[i].Node, s.removed[i].Removed.UTC().Format(time.RFC3339), ErrRemoved)
	case membership.AwaitRemoval:
		return 0, fmt.Errorf("%w: the member %s at %s is being removed", ErrWait, keyspace.MemberID(members[i].ID), node.PeerURL)
	case membership.PeerInUse:
		return 0, inUse("the address " + node.PeerURL)
	case membership.NodeInUse:
		return 0, inUse(fmt.Sprintf("the node ID %q", node.Node))
	default: // ClientInUse
		return 0, inUse("the address " + node.ClientURL)
	}
}

func addedNode(m record.Member) membership.AddedNode {
	return membership.AddedNode{Node: m.Node, Key: string(m.Key[:]), Address: m.Address, PeerURL: m.PeerURL, ClientURL: m.ClientURL}
}

// addLearner makes one attempt. etcd may have carried out a request without an
// answer, so addLearner lists the members again.
func addLearner(ctx context.Context, client *etcd.Client, peerURL string) (uint64, error) {
	limited, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	id, err := client.AddLearner(limited, peerURL)
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, etcd.ErrLearners):
		return 0, fmt.Errorf("%w: other nodes are joining", ErrWait)
	case errors.Is(err, etcd.ErrUnhealthy):
		return 0, fmt.Errorf("%w: %s", ErrWait, whyUnhealthy(ctx, client))
	}
	members, listErr := client.Members(ctx)
	if listErr != nil {
		return 0, errors.Join(err, listErr)
	}
	for _, m := range members {
		if m.Learner && m.Name == "" && slices.Contains(m.PeerURLs, peerURL) {
			return m.ID, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", ErrWait, err)
}

// whyUnhealthy names the voter that keeps etcd from adding a member, and the remedy.
func whyUnhealthy(ctx context.Context, client *etcd.Client) string {
	all, err := List(ctx, client)
	if err != nil {
		return "a member is unreachable, or was added less than 5 s ago"
	}
	for _, v := range all {
		if !v.Learner && !v.Healthy {
			return fmt.Sprintf("%s: %s; start it again, or, if that node is off for good, remove it on another member: sidecar cluster remove %s",
				name(v), v.Problem, cmp.Or(string(v.Node), keyspace.MemberID(v.ID)))
		}
	}
	return "a member was added less than 5 s ago"
}

// writeRecords writes who the new member is. It deletes the records that remain of removed
// members, for example of those that etcd's own tools removed. If the sidecar of etcd's leader
// wrote meanwhile that the member is leaving, it writes nothing: nothing takes that back.
func writeRecords(ctx context.Context, client *etcd.Client, s stored, members []etcd.Member, id uint64, node record.Member) error {
	keys := keyspace.Under(client.Prefix())
	node.ID = id
	if was, found := s.members[id]; found {
		node.Added, node.Leaving, node.Removed = was.Added, was.Leaving, was.Removed
	}
	ops := []clientv3.Op{clientv3.OpPut(keys.ClusterMember(id), string(record.EncodeMember(node)))}
	if i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.ID == id }); i >= 0 && members[i].Learner {
		ops = append(ops, clientv3.OpPut(keys.ClusterLearner(id), string(record.EncodeLearner(node))))
	}
	for old := range s.members {
		if !slices.ContainsFunc(members, func(m etcd.Member) bool { return m.ID == old }) && old != id {
			ops = append(ops, clientv3.OpDelete(keys.ClusterMember(old)))
		}
	}
	key := keys.ClusterMember(id)
	_, err := client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", s.revisions[key])}, ops...)
	if err = waitIfChanged(err, "member "+keyspace.MemberID(id)); err != nil && !errors.Is(err, ErrWait) {
		return fmt.Errorf("write the records of the members: %w", err)
	}
	return err
}
