package backoff

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff_Next(t *testing.T) {
	for _, tt := range []struct {
		name    string
		backoff Backoff
		want    []time.Duration
	}{
		{"doubles up to the limit", Backoff{First: 100, Max: 500}, []time.Duration{100, 200, 400, 500, 500}},
		{"reaches a limit that is a multiple", Backoff{First: 100, Max: 400}, []time.Duration{100, 200, 400, 400}},
		{"stays at First without a limit", Backoff{First: 100}, []time.Duration{100, 100, 100}},
		{"stays at First with a limit below it", Backoff{First: 100, Max: 50}, []time.Duration{100, 100}},
		{"does not overflow", Backoff{First: math.MaxInt64/2 + 1, Max: math.MaxInt64}, []time.Duration{math.MaxInt64/2 + 1, math.MaxInt64, math.MaxInt64}},
		{"does not pause without First and Max", Backoff{}, []time.Duration{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.backoff
			var got []time.Duration
			for range tt.want {
				got = append(got, b.Next())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestBackoff_Reset(t *testing.T) {
	b := Backoff{First: time.Second, Max: time.Minute}
	if got := b.Pause(); got != 0 {
		t.Errorf("before the first failure: got a pause of %s", got)
	}
	b.Next()
	if next, got := b.Next(), b.Pause(); got != next || got != 2*time.Second {
		t.Errorf("got %s from Pause after %s from Next, want 2s", got, next)
	}
	b.Reset()
	if got := b.Pause(); got != 0 {
		t.Errorf("after Reset: got a pause of %s", got)
	}
	if got := b.Next(); got != time.Second {
		t.Errorf("got %s after Reset, want the first pause", got)
	}
}

// Jitter shortens each pause, also the longest one, and does not feed the next one.
func TestBackoff_Jitter(t *testing.T) {
	const rounds = 1000
	for _, jitter := range []float64{0.5, 1} {
		steps := []time.Duration{1000, 2000, 4000, 4500, 4500}
		var sums [5]time.Duration
		for range rounds {
			b := Backoff{First: 1000, Max: 4500, Jitter: jitter}
			for i, step := range steps {
				got := b.Next()
				if low := time.Duration((1 - jitter) * float64(step)); got < max(low, 1) || got > step {
					t.Fatalf("jitter %g, pause %d: got %d, want it between %d and %d", jitter, i+1, got, low, step)
				}
				sums[i] += got
			}
		}
		for i, step := range steps {
			mean, want := float64(sums[i])/rounds, (1-jitter/2)*float64(step)
			if math.Abs(mean-want) > 0.1*float64(step) {
				t.Errorf("jitter %g, pause %d: its mean is %g, want about %g", jitter, i+1, mean, want)
			}
		}
	}
}

func TestSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		got := Spread(1000)
		if got < 500 || got > 1000 {
			t.Fatalf("got %d, want it between 500 and 1000", got)
		}
		seen[got] = true
	}
	if len(seen) < 100 {
		t.Errorf("1000 pauses have only %d lengths", len(seen))
	}
	if got := Spread(0); got != 0 {
		t.Errorf("got %d of no pause", got)
	}
}

func TestBackoff_Sleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Second, Max: 3 * time.Second}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			began := time.Now()
			if !b.Sleep(t.Context()) {
				t.Fatal("the context is reported as ended")
			}
			if got := time.Since(began); got != want {
				t.Errorf("slept for %s, want %s", got, want)
			}
		}
	})
}

func TestSleep_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Sleep(ctx, time.Hour) {
			t.Error("the context is reported as alive")
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("slept for %s, want 1s", got)
		}
		if Sleep(ctx, 0) {
			t.Error("without a pause: the context is reported as alive")
		}
		if !Sleep(t.Context(), 0) || !Sleep(t.Context(), -time.Second) {
			t.Error("without a pause: the context is reported as ended")
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, times := time.Now(), 0
		err := Every(ctx, time.Minute, func() {
			times++
			if want := began.Add(time.Duration(times) * time.Minute); !time.Now().Equal(want) {
				t.Errorf("got %s, want %s", time.Now(), want)
			}
			if times == 3 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || times != 3 {
			t.Errorf("got %v after %d", err, times)
		}
	})
}
