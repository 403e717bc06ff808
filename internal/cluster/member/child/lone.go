package child

import (
	"context"
	"encoding/json"
	"expvar"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// lonePause is the pause between two looks at a member without a leader.
const lonePause = 5 * time.Millisecond

// candidate is etcd's server, as electLone uses it.
type candidate interface {
	MemberID() types.ID
	Leader() types.ID
	AppliedIndex() uint64
	CommittedIndex() uint64
	Process(ctx context.Context, m *raftpb.Message) error
}

// electLone makes the only voter of a cluster its leader at once. By itself, the member
// waits for one to five heartbeats until it holds an election that no other member can win
// (docs/upstream.md#etcd-lone-election). It does nothing while there are, or may be, other
// voters. It returns when there is a leader, and when ctx ends.
//
// An election scans the entries that raft does not know to be applied. etcd applies the last ones, and may drop them from
// its memory, before raft knows: then the scan panics. So known returns what raft knows.
func electLone(ctx context.Context, s candidate, members func() []*membership.Member, known func() uint64) {
	for s.Leader() == 0 {
		// The list of the members contains only applied changes: the rest of the log may add others.
		caughtUp := s.AppliedIndex() > 0 && s.AppliedIndex() >= s.CommittedIndex() && known() >= s.CommittedIndex()
		if caughtUp && onlyVoter(s.MemberID(), members()) {
			id := uint64(s.MemberID())
			// It fails only when the member stops.
			_ = s.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &id, To: &id})
		}
		if !backoff.Sleep(ctx, lonePause) {
			return
		}
	}
}

// raftApplied returns the index up to which raft knows that etcd has applied its log; 0: not known.
func raftApplied() uint64 {
	var status struct {
		Applied uint64 `json:"applied"`
	}
	if published := expvar.Get("raft.status"); published == nil || json.Unmarshal([]byte(published.String()), &status) != nil {
		return 0 // the member elects itself later
	}
	return status.Applied
}

// onlyVoter reports whether the member id votes, and no other member does.
func onlyVoter(id types.ID, members []*membership.Member) bool {
	voters := slices.DeleteFunc(slices.Clone(members), func(m *membership.Member) bool { return m.IsLearner })
	return len(voters) == 1 && voters[0].ID == id
}
