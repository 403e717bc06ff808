package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Removal is a member to remove.
type Removal struct {
	// Name is a member ID, in hexadecimal, or a node ID.
	Name string
	// Dial returns a client of one member, by its client URL. The caller of Remove
	// closes nothing: Remove does.
	Dial func(clientURL string) (*etcd.Client, error)
	// Progress is called with a sentence for each step that takes its time; nil: it is
	// not reported.
	Progress func(text string)

	// Force: also if the sidecar of the node is alive.
	Force bool
	// By is the user and the machine that removes it, for people; empty: unknown.
	By string
	// Leaves: the node leaves because it lost the role of a member. It may become a
	// member again with the same key.
	Leaves bool
	// Before is called when the removal is allowed, and before it is requested. nil:
	// nothing.
	Before func()
	// After is called after each step, with its name. It is for tests; nil: nothing.
	After func(step string)
}

// settle is how long etcd may refuse a removal because a voter is connected for less
// than 5 s.
const settle = 7 * time.Second

// Remove removes a member. It refuses to remove the last voter, and one without which
// fewer than a majority of the voters would answer, and without Force one whose sidecar is alive
// (ErrRefused). A member that leads hands over first. It returns the member that it removed.
func Remove(ctx context.Context, client *etcd.Client, r Removal) (View, error) {
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if r.Before == nil {
		r.Before = func() {}
	}
	if r.After == nil {
		r.After = func(string) {}
	}
	// Before the lock: others wait for that.
	if err := r.awaitEnd(ctx, client); err != nil {
		return View{}, withRecord(ctx, client, err)
	}
	var removed View
	err := locked(ctx, client, "the removal of "+r.Name, func(ctx context.Context) error {
		for {
			var err error
			if removed, err = r.attempt(ctx, client); !errors.Is(err, etcd.ErrChanged) {
				return err
			}
		}
	})
	return removed, withRecord(ctx, client, err)
}

// withRecord adds to an UnknownError whether there is a node record with this ID: a node keeps
// it after the removal of its member.
func withRecord(ctx context.Context, client *etcd.Client, err error) error {
	unknown, is := errors.AsType[*UnknownError](err)
	if !is {
		return err
	}
	key := keyspace.Under(client.Prefix()).Node(protocol.NodeID(unknown.Name))
	resp, readErr := client.Txn(ctx, nil, []clientv3.Op{clientv3.OpGet(key, clientv3.WithCountOnly())}, nil)
	if readErr != nil {
		return errors.Join(err, fmt.Errorf("read the record of node %q: %w", unknown.Name, readErr))
	}
	unknown.Registered = resp.Responses[0].GetResponseRange().Count > 0
	return err
}

// attempt needs the lock. It returns etcd.ErrChanged if a record changed since it was
// read: nothing was requested then.
func (r Removal) attempt(ctx context.Context, client *etcd.Client) (View, error) {
	all, s, err := listWithRoles(ctx, client)
	if err != nil {
		return View{}, err
	}
	target, err := find(all, r.Name)
	if err != nil {
		return View{}, err
	}
	if r.Leaves && !membership.MayLeave(s.lost[target.Node], s.members[target.ID].Leaving) {
		return View{}, fmt.Errorf("%w: node %q has the role %s again", ErrRefused, target.Node, protocol.RoleConsensus)
	}
	if err := mayRemove(all, target, r.remedy(target)); err != nil {
		return View{}, err
	}
	if r.asksFirst(target.Node) {
		// It may have started since. If it starts later, the write fails.
		switch lease, err := presenceLease(ctx, client, target.Node); {
		case err != nil:
			return View{}, err
		case lease != 0:
			return View{}, stillAlive(target.Node)
		}
	}
	r.Before()
	return target, r.remove(ctx, client, all, target, s)
}

// remove needs the lock. It may be run again after any step. remove first writes into
// the record that the member is leaving, and then asks etcd to remove it: etcd may do
// that long after the request (docs/protocol-membership.md#membership). The key of a member that
// people remove is refused from then on, also if this command is killed before the end.
func (r Removal) remove(ctx context.Context, client *etcd.Client, all []View, target View, s stored) error {
	keys := keyspace.Under(client.Prefix())
	rec, known := s.members[target.ID]
	leaving := []clientv3.Op{clientv3.OpGet(keys.Cluster())}
	if known && !r.Leaves {
		// Each sidecar sees by this that its node does not end the removal by itself.
		rec.Removed, rec.By = time.Now(), r.By
	}
	if known {
		rec.Leaving = true
		leaving = []clientv3.Op{clientv3.OpPut(keys.ClusterMember(target.ID), string(record.EncodeMember(rec)))}
	}
	if known && !rec.Removed.IsZero() {
		leaving = append(leaving, clientv3.OpPut(keys.RemovedMember(target.ID), string(record.EncodeMember(rec))))
	}
	if _, err := client.Write(ctx, append(s.unchanged(client), r.notAlive(client, target.Node)...), leaving...); err != nil {
		return fmt.Errorf("write that the member is leaving: %w", err)
	}
	r.After("leaving")
	if err := r.removeMember(ctx, client, all, target); err != nil {
		return err
	}
	r.After("removed")
	return forgetAfter(ctx, client, target.ID)
}

// Forget deletes the records of a member that was removed.
func Forget(ctx context.Context, client *etcd.Client, id uint64) error {
	keys := keyspace.Under(client.Prefix())
	return write(ctx, client, clientv3.OpDelete(keys.ClusterMember(id)), clientv3.OpDelete(keys.ClusterLearner(id)))
}

// forgetAfter is Forget right after a removal. The client may still use a connection to the
// removed member, which answers with errors until it ends.
func forgetAfter(ctx context.Context, client *etcd.Client, id uint64) error {
	began := time.Now()
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for {
		err := Forget(ctx, client, id)
		if err == nil || time.Since(began) > lockTTL || !pauses.Sleep(ctx) {
			return err
		}
	}
}

// find returns the member with that ID, or of that node.
func find(all []View, wanted string) (View, error) {
	id, isID := keyspace.ParseMemberID(wanted)
	var found []View
	for _, v := range all {
		if isID && v.ID == id {
			return v, nil
		}
		if v.Node == protocol.NodeID(wanted) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return View{}, &UnknownError{Name: wanted, Members: names(all)}
	}
	return View{}, fmt.Errorf("%w: %d members belong to node %q; name one by its member ID, as sidecar cluster members shows it", ErrRefused, len(found), wanted)
}

// endCluster is the remedy for a user who removes the last voter.
const endCluster = "to end this cluster, stop its sidecar and delete its data directory"

// remedy is the remedy if the member is the last voter. If its node leaves, the member holds
// the only copy of the data, and no user asked to end the cluster.
func (r Removal) remedy(target View) string {
	if !r.Leaves {
		return endCluster
	}
	return fmt.Sprintf("its node has not the role %s: to keep the member, type: sidecar node set-roles %s --add %s",
		protocol.RoleConsensus, target.Node, protocol.RoleConsensus)
}

// otherVoters returns the voters besides a member, how many of them stay, and how many are healthy.
func otherVoters(all []View, target View) (others []protocol.Voter, stay, healthy int) {
	for _, v := range all {
		if v.Learner || v.ID == target.ID {
			continue
		}
		others = append(others, v.voter())
		if !v.Leaving {
			stay++
		}
		if v.Healthy {
			healthy++
		}
	}
	return others, stay, healthy
}

func (v View) voter() protocol.Voter { return protocol.Voter{Healthy: v.Healthy, Leaving: v.Leaving} }

// mayRemove returns why the removal would harm the cluster; nil: it would not. remedy is the remedy
// for the last voter.
func mayRemove(all []View, target View, remedy string) error {
	if target.Learner {
		return nil
	}
	others, stay, healthy := otherVoters(all, target)
	switch membership.JudgeRemoval(others) {
	case membership.MayRemove:
		return nil
	case membership.KeepLastVoter:
		if len(others) > 0 {
			return fmt.Errorf("%w: %s is the last voter that stays, all others are being removed; %s", ErrRefused, name(target), remedy)
		}
		return fmt.Errorf("%w: %s is the only voter; %s", ErrRefused, name(target), remedy)
	default: // KeepQuorum
	}
	if healthy >= protocol.Majority(len(others)) {
		return fmt.Errorf("%w: without %s and the members that are being removed, the cluster would have %s, and too few of them would answer: %s",
			ErrRefused, name(target), count(stay), unhealthy(all, target))
	}
	return fmt.Errorf("%w: without %s the cluster would have %s, of which %d must answer, and %d would: %s",
		ErrRefused, name(target), count(len(others)), protocol.Majority(len(others)), healthy, unhealthy(all, target))
}

// unhealthy names the other voters that do not answer, and the remedy.
func unhealthy(all []View, target View) string {
	var text strings.Builder
	found := 0
	for _, v := range all {
		if !v.Learner && v.ID != target.ID && !v.Healthy {
			fmt.Fprintf(&text, "%s: %s; ", name(v), v.Problem)
			found++
		}
	}
	if found == 1 {
		return text.String() + "start it again, or remove it first"
	}
	return text.String() + "start these again, or remove one of them first"
}

func name(v View) string {
	if v.Node == "" {
		return "member " + keyspace.MemberID(v.ID)
	}
	return fmt.Sprintf("node %q (member %s)", v.Node, keyspace.MemberID(v.ID))
}

// names names all members.
func names(all []View) string {
	var out []string
	for _, v := range all {
		out = append(out, name(v))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func count(voters int) string {
	if voters == 1 {
		return "1 voter"
	}
	return fmt.Sprintf("%d voters", voters)
}

// handOver makes another voter the leader if the member leads now, so that no request
// fails with the member that is removed. The list may be old. A leader that hangs cannot
// hand over: then etcd elects another one.
func (r Removal) handOver(ctx context.Context, client *etcd.Client, all []View, target View) error {
	if !leads(ctx, client, all, target) {
		return nil
	}
	err := r.moveLeader(ctx, all, target)
	if err != nil && !leads(ctx, client, all, target) {
		return nil // another one was elected meanwhile
	}
	return err
}

// leads reports whether a member leads, as another voter knows it. The member itself is not
// asked: if it was removed a moment ago, that would end its process
// (docs/upstream.md#etcd-status-after-stop).
func leads(ctx context.Context, client *etcd.Client, all []View, target View) bool {
	for _, v := range all {
		if v.Learner || !v.Healthy || v.ID == target.ID {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, statusTimeout)
		status, err := client.MemberStatus(limited, v.ClientURL)
		cancel()
		if err == nil && status.ID == v.ID && status.Leader != 0 {
			return status.Leader == target.ID
		}
	}
	return false
}

func (r Removal) moveLeader(ctx context.Context, all []View, target View) error {
	i := slices.IndexFunc(all, func(v View) bool { return !v.Learner && v.Healthy && v.ID != target.ID })
	if i < 0 {
		return nil
	}
	r.Progress(fmt.Sprintf("%s leads etcd; it hands over to %s", name(target), name(all[i])))
	leader, err := r.Dial(target.ClientURL)
	if err != nil {
		return err
	}
	err = leader.MoveLeader(ctx, all[i].ID)
	return errors.Join(err, leader.Close())
}

// removeMember tries until the member is removed, or until etcd refuses for longer than a
// voter needs to settle. Each time the member hands over first, if it leads. etcd may
// carry out a removal later that it did not answer, so removeMember lists the members
// again.
func (r Removal) removeMember(ctx context.Context, client *etcd.Client, all []View, target View) error {
	began, reported, id := time.Now(), false, target.ID
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Max: time.Second}
	for {
		if err := r.handOver(ctx, client, all, target); err != nil {
			return err
		}
		r.After("handover")
		err := client.RemoveMember(ctx, id)
		if err == nil || errors.Is(err, etcd.ErrNoMember) {
			return nil
		}
		members, listErr := client.Members(ctx)
		switch {
		case listErr != nil:
			return fmt.Errorf("%w; whether the member was removed is not known: run sidecar cluster members once etcd answers: %w", err, listErr)
		case !slices.ContainsFunc(members, func(m etcd.Member) bool { return m.ID == id }):
			return nil
		case time.Since(began) > settle:
			return fmt.Errorf("%w: etcd refuses it: %w", ErrRefused, err)
		}
		if !reported {
			reported = true
			r.Progress("waiting: etcd removes no voter until all voters that are up have been connected for 5 s")
		}
		if !pauses.Sleep(ctx) {
			return errors.Join(err, ctx.Err())
		}
	}
}
