package role

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// fakeMember is a member of a cluster in which every step takes effect at once, except that
// a learner votes when the test says so.
type fakeMember struct {
	mu      sync.Mutex
	facts   membership.Facts
	log     []string
	trouble string
	away    bool  // no majority answers
	refused error // why RemoveMember fails
	votes   chan struct{}
}

func (f *fakeMember) MemberFacts(context.Context) (membership.Facts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	facts := f.facts
	if f.away && facts.Phase != membership.Working {
		facts.Listed = membership.ListedUnknown
		return facts, errors.New("no majority")
	}
	return facts, nil
}

func (f *fakeMember) Trouble(problem string) { f.change(func() { f.trouble = problem }) }

func (f *fakeMember) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeMember) TakeMemberStep(ctx context.Context, step membership.Step) error {
	if step == membership.AwaitVote {
		select {
		case <-f.votes:
			f.change(func() { f.facts.Listed = membership.ListedVoter })
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if step == membership.RemoveMember && f.refused != nil {
		return f.refused
	}
	f.log, f.trouble = append(f.log, step.String()), ""
	switch step {
	case membership.BeginAdding:
		f.facts.Phase = membership.Adding
	case membership.AddLearner:
		f.facts.Listed = membership.ListedLearner
	case membership.StartMember:
		f.facts.Runs, f.facts.Data = true, true
	case membership.EndAdding:
		f.facts.Phase = membership.Working
	case membership.BeginLeaving:
		f.facts.Phase = membership.Leaving
	case membership.RemoveMember:
		f.facts.Listed = membership.NotListed
	case membership.StopMember:
		f.facts.Runs = false
	case membership.MoveData:
		f.facts.Data = false
	case membership.EndLeaving:
		f.facts.Phase = membership.WithoutMember
	default:
	}
	return nil
}

// controlPlane runs the worker of a node until the test ends.
func controlPlane(t *testing.T, f *fakeMember) *event.Value[Local] {
	t.Helper()
	f.votes = make(chan struct{})
	roles := event.New(Local{})
	w := NewControlPlane(ControlPlaneConfig{Member: f, Roles: roles, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Cleanup(func() { cancel(); run.Wait() })
	return roles
}

func (f *fakeMember) wants(t *testing.T, steps ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.log, steps) {
		t.Errorf("got %v, want %v", f.log, steps)
	}
	f.log = nil
}

func member(is bool) Local { return Local{Roles: protocol.Roles{Consensus: is}, Source: FromCluster} }

func voter() membership.Facts {
	return membership.Facts{Phase: membership.Working, Listed: membership.ListedVoter, Data: true, Runs: true}
}

func TestControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeMember{facts: voter()}
		roles := controlPlane(t, f)
		<-time.After(time.Hour)
		f.wants(t) // the roles are not known
		roles.Set(member(true))
		f.wants(t)
		roles.Set(member(false))
		f.wants(t, "BeginLeaving", "RemoveMember", "StopMember", "MoveData", "EndLeaving")
		<-time.After(time.Hour)
		f.wants(t)
		roles.Set(member(true))
		f.wants(t, "BeginAdding", "AddLearner", "StartMember")
		f.votes <- struct{}{}
		f.wants(t, "AwaitVote", "EndAdding")
	})
}

// A node that loses the role while it waits for its vote leaves at once.
func TestControlPlane_changesItsMind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeMember{facts: membership.Facts{Phase: membership.WithoutMember, Listed: membership.NotListed}}
		roles := controlPlane(t, f)
		roles.Set(member(true))
		f.wants(t, "BeginAdding", "AddLearner", "StartMember")
		<-time.After(time.Hour)
		roles.Set(member(false))
		f.wants(t, "BeginLeaving", "RemoveMember", "StopMember", "MoveData", "EndLeaving")
	})
}

// Why a step fails is shown, and the step is tried again.
func TestControlPlane_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeMember{facts: voter(), refused: errors.New("it is the last one")}
		roles := controlPlane(t, f)
		roles.Set(member(false))
		f.wants(t, "BeginLeaving")
		wantTrouble := func(want string) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if !strings.Contains(f.trouble, want) || want == "" && f.trouble != "" {
				t.Errorf("got %q, want %q", f.trouble, want)
			}
		}
		wantTrouble("RemoveMember: it is the last one")
		f.change(func() { f.away = true })
		<-time.After(time.Minute)
		wantTrouble("AskMembers: no majority")
		f.change(func() { f.away, f.refused = false, nil })
		<-time.After(2 * maxStepPause)
		f.wants(t, "RemoveMember", "StopMember", "MoveData", "EndLeaving")
		wantTrouble("")
	})
}
