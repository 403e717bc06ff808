package child

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3/raftpb"
)

// now is the knowledge of a member.
type now struct {
	leader    types.ID
	committed uint64
	learner   bool
}

// server is a member as awaitLoss sees it.
type server struct{ atomic.Pointer[now] }

func (s *server) Leader() types.ID       { return s.Load().leader }
func (s *server) CommittedIndex() uint64 { return s.Load().committed }
func (s *server) IsLearner() bool        { return s.Load().learner }

func TestAwaitLoss(t *testing.T) {
	const patience = time.Second
	for name, tc := range map[string]struct {
		begin now
		later now           // after half of the patience
		want  time.Duration // until the loss is noticed; 0: never
	}{
		"a learner with a leader and data": {now{1, 7, true}, now{1, 7, true}, patience},
		"no leader":                        {now{0, 7, true}, now{0, 7, true}, 0},
		"no data":                          {now{1, 0, true}, now{1, 0, true}, 0},
		"a voter":                          {now{1, 7, false}, now{1, 7, false}, 0},
		"it receives data later":           {now{1, 0, true}, now{1, 7, true}, patience + patience/2},
		"another leader at once":           {now{1, 7, true}, now{2, 7, true}, patience},
		"it becomes a voter":               {now{1, 7, true}, now{1, 7, false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began, lost := time.Now(), make(chan struct{})
				var s server
				s.Store(&tc.begin)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					awaitLoss(ctx, &s, patience, lost)
				}()
				<-time.After(patience / 2)
				s.Store(&tc.later)
				select {
				case <-lost:
					took := time.Since(began)
					if tc.want == 0 || took < tc.want || took > tc.want+3*lossPause {
						t.Errorf("noticed after %s, want %s", took, tc.want)
					}
				case <-time.After(10 * patience):
					if tc.want != 0 {
						t.Errorf("not noticed, want after %s", tc.want)
					}
				}
				cancel()
				<-ended
			})
		})
	}
}

// voter is a member as electLone sees it: the one with the ID 1.
type voter struct {
	server
	applied uint64
	asked   int
}

func (v *voter) MemberID() types.ID   { return 1 }
func (v *voter) AppliedIndex() uint64 { return v.applied }

// Process elects the member, as etcd does.
func (v *voter) Process(_ context.Context, m *raftpb.Message) error {
	if m.GetType() == raftpb.MsgTimeoutNow && m.GetTo() == 1 {
		v.asked++
		v.Store(&now{leader: 1, committed: v.CommittedIndex()})
	}
	return nil
}

func TestElectLone(t *testing.T) {
	self, learner, other := &membership.Member{ID: 1}, &membership.Member{ID: 2}, &membership.Member{ID: 3}
	learner.IsLearner = true
	for name, tc := range map[string]struct {
		now     now
		applied uint64
		members []*membership.Member
		want    int
	}{
		"raft does not know that":  {now{0, 7, false}, 7, []*membership.Member{self}, 0},
		"alone":                    {now{0, 7, false}, 7, []*membership.Member{self}, 1},
		"with a learner":           {now{0, 7, false}, 7, []*membership.Member{self, learner}, 1},
		"with another voter":       {now{0, 7, false}, 7, []*membership.Member{self, other}, 0},
		"a learner itself":         {now{0, 7, true}, 7, []*membership.Member{learner, other}, 0},
		"there is a leader":        {now{1, 7, false}, 7, []*membership.Member{self}, 0},
		"its log says more":        {now{0, 8, false}, 7, []*membership.Member{self}, 0},
		"it has no log yet":        {now{0, 0, false}, 0, []*membership.Member{self}, 0},
		"it is not a member (yet)": {now{0, 7, false}, 7, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				v := &voter{applied: tc.applied}
				v.Store(&tc.now)
				electLone(ctx, v, func() []*membership.Member { return tc.members }, func() uint64 {
					if name == "raft does not know that" {
						return tc.applied - 1
					}
					return tc.applied
				})
				if v.asked != tc.want {
					t.Errorf("asked %d times for an election, want %d", v.asked, tc.want)
				}
			})
		})
	}
}
