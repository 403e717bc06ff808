package supervise

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var (
	errBad   = errors.New("bad")
	errFinal = errors.New("final")
)

func isFinal(err error) bool { return errors.Is(err, errFinal) }

// A worker that fails, panics and ends by itself is started again each time, after
// pauses that grow, and the one beside it does not notice.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := New(slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var at []time.Duration
		bad := s.Keep("bad", func(ctx context.Context) error {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return errBad
			case 2:
				panic("at the disco")
			case 3:
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, isFinal)
		others := 0
		other := s.Keep("other", func(ctx context.Context) error { others++; <-ctx.Done(); return ctx.Err() }, nil)
		var running sync.WaitGroup
		running.Go(func() {
			if err := bad(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("the worker ended with %v", err)
			}
		})
		running.Go(func() { _ = other(ctx) })
		<-time.After(10 * time.Second)
		synctest.Wait()
		want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}
		if len(at) != len(want) || at[3] != want[3] || at[2] != want[2] || others != 1 {
			t.Errorf("it ran at %v, want %v; the other one %d times", at, want, others)
		}
		got := s.Failures().Get()
		if len(got) != 1 || got[0].Worker != "bad" || got[0].Times != 3 || got[0].Problem != "it ended by itself" || !got[0].Since.Equal(began) {
			t.Errorf("failures: %+v", got)
		}
		if n := testutil.ToFloat64(s.metrics.restarts.WithLabelValues("bad")); n != 3 {
			t.Errorf("the metric has %v", n)
		}
		if !strings.Contains(log.String(), "at the disco") || !strings.Contains(log.String(), "supervise_test.go") {
			t.Errorf("the log has no panic with its place: %s", &log)
		}
		<-time.After(time.Minute)
		if got := s.Failures().Get(); len(got) != 0 {
			t.Errorf("after a good run: %+v", got)
		}
		cancel()
		running.Wait()
	})
}

// An error that is final ends the worker.
func TestKeep_final(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler), nil)
	runs := 0
	err := s.Keep("a", func(context.Context) error { runs++; return errFinal }, isFinal)(t.Context())
	if !errors.Is(err, errFinal) || runs != 1 || len(s.Failures().Get()) != 0 {
		t.Errorf("%v after %d runs, %+v", err, runs, s.Failures().Get())
	}
}

// A panic that is contained is an error.
func TestContain(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler), nil)
	err := s.Contain("a", func(context.Context) error { panic(errBad) })(t.Context())
	if err == nil || err.Error() != "panic: bad" {
		t.Errorf("got %v", err)
	}
}
