package child

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// server is a member as awaitLoss sees it.
type server struct {
	leader    types.ID
	committed uint64
	learner   bool
}

func (s *server) Leader() types.ID       { return s.leader }
func (s *server) CommittedIndex() uint64 { return s.committed }
func (s *server) IsLearner() bool        { return s.learner }

func TestAwaitLoss(t *testing.T) {
	const patience = time.Second
	for name, tc := range map[string]struct {
		begin server
		later func(*server) // after half of the patience
		want  time.Duration // until the loss is noticed; 0: never
	}{
		"a learner with a leader and data": {server{1, 7, true}, func(*server) {}, patience},
		"no leader":                        {server{0, 7, true}, func(*server) {}, 0},
		"no data":                          {server{1, 0, true}, func(*server) {}, 0},
		"a voter":                          {server{1, 7, false}, func(*server) {}, 0},
		"it receives data later":           {server{1, 0, true}, func(s *server) { s.committed = 7 }, patience + patience/2},
		"another leader at once":           {server{1, 7, true}, func(s *server) { s.leader = 2 }, patience},
		"it becomes a voter":               {server{1, 7, true}, func(s *server) { s.learner = false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began, lost := time.Now(), make(chan struct{})
				s := tc.begin
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					awaitLoss(ctx, &s, patience, lost)
				}()
				<-time.After(patience / 2)
				tc.later(&s)
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
