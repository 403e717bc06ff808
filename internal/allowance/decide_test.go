package allowance

import (
	"testing"
	"time"
)

func TestSpend(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		own, common *balance
		wait        time.Duration
		ok          bool
		left        time.Duration // of common
	}{
		"own share first":                        {&balance{left: ms}, &balance{left: 5 * ms}, 0, true, 5 * ms},
		"own share although the common is spent": {&balance{left: ms}, &balance{left: -time.Hour}, 0, true, -time.Hour},
		"own share is too small":                 {&balance{left: ms - 1}, &balance{left: 5 * ms}, 0, true, 4 * ms},
		"no place":                               {nil, &balance{left: ms}, 0, true, 0},
		"common is spent: it waits":              {nil, &balance{left: 0}, 100 * ms, true, -ms},
		"who comes next waits longer":            {nil, &balance{left: -ms}, 200 * ms, true, -2 * ms},
		"it would wait too long":                 {nil, &balance{left: -2 * ms}, 300 * ms, false, -2 * ms},
		"it would wait too long, with a place":   {&balance{}, &balance{left: -2 * ms}, 300 * ms, false, -2 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			wait, ok := spend(tc.own, tc.common, 0.01, ms, 250*ms)
			if wait != tc.wait || ok != tc.ok || tc.common.left != tc.left {
				t.Errorf("got %s, %t, left %s; want %s, %t, %s", wait, ok, tc.common.left, tc.wait, tc.ok, tc.left)
			}
		})
	}
}

func TestBalance_filled(t *testing.T) {
	now := time.Unix(1000, 0)
	b := balance{}.filled(now, 0.01, time.Second)
	if b.left != 10*time.Millisecond {
		t.Errorf("at first it has %s", b.left)
	}
	b.left = -20 * time.Millisecond
	if b = b.filled(now.Add(time.Second), 0.01, time.Second); b.left != -10*time.Millisecond {
		t.Errorf("after a second it has %s", b.left)
	}
	if b = b.filled(now, 0.01, time.Second); b.left != -10*time.Millisecond {
		t.Errorf("after the clock went back it has %s", b.left)
	}
	if b = b.filled(now.Add(time.Hour), 0.01, time.Second); b.left != 10*time.Millisecond {
		t.Errorf("after an hour it has %s", b.left)
	}
}

// An address is held off after some refusals, each time for longer, and for the first time again after it was quiet.
func TestHold(t *testing.T) {
	now := time.Unix(1000, 0)
	var h hold
	attack := func() time.Duration {
		t.Helper()
		for range maxRefusals - 1 {
			if h = h.afterRefusal(now); h.active(now) {
				t.Fatal("held off too early")
			}
		}
		if h = h.afterRefusal(now); !h.active(now) {
			t.Fatal("not held off")
		}
		before := h
		for range 3 * maxRefusals { // connections that were on their way
			h = h.afterRefusal(now)
		}
		if h.until != before.until {
			t.Errorf("held off until %s, then until %s", before.until, h.until)
		}
		h.refused = 0
		now = h.until
		return h.length
	}
	for _, want := range []time.Duration{firstHold, 2 * firstHold, 4 * firstHold, 8 * firstHold, maxHold, maxHold} {
		if got := attack(); got != want {
			t.Errorf("held off for %s, want %s", got, want)
		}
	}
	now = now.Add(2*maxHold + 1)
	if got := attack(); got != firstHold {
		t.Errorf("after it was quiet: held off for %s", got)
	}
	// A refusal now and then is no attack.
	h = hold{}
	for range 10 * maxRefusals {
		now = now.Add(refusalWindow / (maxRefusals - 2))
		if h = h.afterRefusal(now); h.active(now) {
			t.Fatal("held off")
		}
	}
}

func TestNextSample(t *testing.T) {
	for _, tc := range []struct {
		sample  float64
		refused int
		want    float64
	}{
		{1, 0, 1}, {1, maxSampledRefusals, 1}, {1, 10 * maxSampledRefusals, 0.1}, {0.1, maxSampledRefusals, 0.1},
		{0.1, maxSampledRefusals / 2, 0.2}, {minSample, 1 << 40, minSample}, {0.75, 0, 1},
	} {
		if got := nextSample(tc.sample, tc.refused); got != tc.want {
			t.Errorf("%g after %d refusals: got %g, want %g", tc.sample, tc.refused, got, tc.want)
		}
	}
}
