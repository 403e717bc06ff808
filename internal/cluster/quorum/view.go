package quorum

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
)

// View is a member as people see it: its record, and what it reports.
type View struct {
	record.Member // without one, only what etcd's list has

	Learner bool // it receives the log and does not vote
	Leader  bool
	Started bool // it ran at least once

	Healthy bool              // it answers, and knows a leader
	Problem string            // why it is not healthy
	Status  etcd.MemberStatus // its answer; zero: none of this member
	Lag     uint64            // how many entries it is behind the leader
}

// statusTimeout bounds the question to one member.
const statusTimeout = 2 * time.Second

// List returns the members, and the status that each reports. Without a majority,
// it returns the members as the server that answers knows them, and ErrNoQuorum.
func List(ctx context.Context, client *etcd.Client) ([]View, error) {
	all, _, err := listMore(ctx, client, func(*stored) error { return nil })
	return all, err
}

// HasMajority reports whether more than half of the voters are healthy. For some seconds after
// a majority died, List still succeeds at the server that answers.
func HasMajority(all []View) bool {
	voters, healthy := 0, 0
	for _, v := range all {
		if v.Learner {
			continue
		}
		voters++
		if v.Healthy {
			healthy++
		}
	}
	return 2*healthy > voters
}

// ListKnown returns the members as the server that answers knows them, and the status that
// each reports. It reads no records, and needs no majority: the members do not send each
// other anything for it.
func ListKnown(ctx context.Context, client *etcd.Client) ([]View, error) {
	known, err := client.KnownMembers(ctx)
	if err != nil {
		return nil, err
	}
	return views(ctx, client, known, stored{}), nil
}

// listMore is List, and also returns the records, of which more may read more.
func listMore(ctx context.Context, client *etcd.Client, more func(*stored) error) ([]View, stored, error) {
	members, s, err := readMembers(ctx, client)
	if err == nil {
		err = more(&s)
	}
	if err != nil {
		known, knownErr := ListKnown(ctx, client)
		if knownErr != nil {
			return nil, stored{}, err
		}
		return known, stored{}, errors.Join(ErrNoQuorum, err)
	}
	return views(ctx, client, members, s), s, nil
}

// listWithRoles is listMore, and counts members as leaving whose nodes lost the role.
func listWithRoles(ctx context.Context, client *etcd.Client) ([]View, stored, error) {
	all, s, err := listMore(ctx, client, func(s *stored) error { return s.readRoles(ctx, client) })
	for i := range all {
		all[i].Leaving = all[i].Leaving || s.lost[all[i].Node]
	}
	return all, s, err
}

func views(ctx context.Context, client *etcd.Client, members []etcd.Member, s stored) []View {
	out := make([]View, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		out[i] = newView(m, s.members[m.ID])
		all.Go(func() { out[i].ask(ctx, client) })
	}
	all.Wait()
	var newest uint64
	for i := range out {
		if status := out[i].Status; status.Leader == out[i].ID && status.Leader != 0 {
			out[i].Leader = true
			newest = max(newest, status.Index)
		}
	}
	for i := range out {
		if out[i].Healthy {
			out[i].Lag = max(newest, out[i].Status.Applied) - out[i].Status.Applied
		}
	}
	return out
}

func newView(m etcd.Member, r record.Member) View {
	v := View{Member: r, Learner: m.Learner, Started: m.Name != ""}
	v.ID, v.PeerURL = m.ID, cmp.Or(m.PeerURLs...)
	v.ClientURL = cmp.Or(cmp.Or(m.ClientURLs...), v.ClientURL)
	v.Node = cmp.Or(v.Node, protocol.NodeID(m.Name))
	return v
}

// ask fills in the status that the member reports.
func (v *View) ask(ctx context.Context, client *etcd.Client) {
	if v.ClientURL == "" || !v.Started {
		v.Problem = "it has not started yet"
		return
	}
	limited, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := client.MemberStatus(limited, v.ClientURL)
	switch {
	case err != nil:
		v.Problem = "it does not answer"
		return
	case status.ID != v.ID:
		v.Problem = "another member answers at its address"
		return
	case status.Leader == 0:
		v.Problem = "it has no leader"
	case len(status.Errors) > 0:
		v.Problem = status.Errors[0]
	}
	v.Status, v.Healthy = status, v.Problem == ""
}
