package quorum

import (
	"context"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// StandingOf returns the standing of the node with this ID and key, by the
// members, their records and the reports.
func StandingOf(ctx context.Context, client *etcd.Client, node protocol.NodeID, key pki.Hash) (membership.Standing, error) {
	members, s, err := readMembers(ctx, client)
	if err != nil {
		return membership.Standing{}, err
	}
	reported, known := s.reports[node]
	out := membership.Standing{
		Listed: membership.NotListed, Rotating: s.rotation.Active(),
		Reported: known && reported.Key == key && reported.CA == s.rotation.Hash,
	}
	for _, r := range s.removed {
		out.Removed = out.Removed || r.Key == key
	}
	for _, m := range members {
		r, known := s.members[m.ID]
		switch {
		case !known || r.Node != node || r.Key != key:
		case m.Learner:
			out.Listed, out.Leaving = membership.ListedLearner, r.Leaving
		default:
			out.Listed, out.Leaving = membership.ListedVoter, r.Leaving
		}
	}
	return out, nil
}
