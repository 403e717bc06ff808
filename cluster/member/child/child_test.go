package child

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// now is what a member knows.
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
