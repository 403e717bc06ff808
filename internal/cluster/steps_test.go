package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// TestStepNames: tests of test/quorum and test/join end the sidecar after each step of a creation, a
// restart and a join.
func TestStepNames(t *testing.T) {
	for _, tc := range []struct {
		steps []step
		want  []string
	}{
		{createSteps(), []string{"directory", "marker", "ca", "certificate", "etcd", "member", "ready", "record", "announce", "phase"}},
		{restartSteps(), []string{"directory", "certificate", "member", "ready", "identity", "record", "announce"}},
		{joinSteps(), []string{"directory", "marker", "key", "enrol", "etcd", "member", "ready", "voter", "authority", "announce", "phase"}},
		{returnSteps(), []string{"directory", "certificate", "member", "answer", "cluster"}},
	} {
		var got []string
		for _, s := range tc.steps {
			got = append(got, s.name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("got %v, want %v", got, tc.want)
		}
	}
}

// plainFlow is a flow without parts, for steps that need none.
func plainFlow(show func(string)) *flow {
	return &flow{parts: parts{process: process{resident: &resident{}, show: show}, log: slog.New(slog.DiscardHandler)}}
}

func TestCarryOut(t *testing.T) {
	fatal := errors.New("refused")
	for name, tc := range map[string]struct {
		errs  []error // of the first step, one for each run
		want  error
		shown []string
	}{
		"at once":             {nil, nil, []string{"", ""}},
		"transient errors":    {[]error{transient(errors.New("no quorum")), transient(errors.New("busy"))}, nil, []string{"no quorum", "busy", "", ""}},
		"an error for good":   {[]error{transient(errors.New("busy")), fatal}, fatal, []string{"busy"}},
		"a transient nothing": {[]error{transient(nil)}, nil, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var shown []string
				runs, second := 0, 0
				f := plainFlow(func(p string) { shown = append(shown, p) })
				err := f.carryOut(t.Context(), "test", []step{
					{"first", func(context.Context, *flow) error {
						runs++
						if runs <= len(tc.errs) {
							return tc.errs[runs-1]
						}
						return nil
					}},
					{"second", func(context.Context, *flow) error { second++; return nil }},
				})
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || !slices.Equal(shown, tc.shown) || (second == 1) != (err == nil) {
					t.Errorf("got %v, shown %q, the second step %d times", err, shown, second)
				}
			})
		})
	}
}

// A directory is held from when it belongs to a node in a cluster: before that, it may be given up.
func TestCarryOut_held(t *testing.T) {
	f := plainFlow(func(string) {})
	f.held, f.dir = event.New(false), &datadir.Dir{}
	becomes := func(phase datadir.Phase) step {
		return step{string(phase), func(context.Context, *flow) error {
			if f.held.Get() {
				t.Errorf("held before %s", phase)
			}
			f.marker.Phase = phase
			return nil
		}}
	}
	if err := f.carryOut(t.Context(), "test", []step{becomes(datadir.Begun), becomes(datadir.Enrolled), becomes(datadir.Member)}); err != nil || !f.held.Get() {
		t.Errorf("got %v, held: %t", err, f.held.Get())
	}
}

func TestCarryOut_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := plainFlow(func(string) {})
		ended := make(chan error)
		go func() {
			ended <- f.carryOut(ctx, "test", []step{{"waits", func(context.Context, *flow) error { return transient(errors.New("no quorum")) }}})
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
