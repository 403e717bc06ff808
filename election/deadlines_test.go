package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

func TestDeadlines_next(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for _, tt := range []struct {
		name     string
		set      func(*deadlines)
		answered time.Time
		others   []time.Time
		want     time.Time
	}{
		{"nothing depends on time", func(*deadlines) {}, time.Time{}, []time.Time{{}}, time.Time{}},
		{"the retry", func(d *deadlines) { d.jobs.at = at(1) }, time.Time{}, nil, at(1)},
		{"the next full pass", func(d *deadlines) { d.resync = at(2) }, time.Time{}, nil, at(2)},
		{"the API has not answered for too long", func(d *deadlines) { d.trying = now }, time.Time{}, nil, at(time.Minute)},
		{"it has answered meanwhile", func(d *deadlines) { d.trying = now }, at(5), nil, at(time.Minute + 5)},
		{"its answer is older than the job", func(d *deadlines) { d.trying = now }, at(-5), nil, at(time.Minute)},
		{"no job needs the API", func(*deadlines) {}, at(-5), nil, time.Time{}},
		{"an absence", func(*deadlines) {}, time.Time{}, []time.Time{at(4), at(3)}, at(3)},
		{"the first of several", func(d *deadlines) { d.jobs.at, d.resync = at(7), at(6) }, time.Time{}, []time.Time{at(8)}, at(6)},
		{"what is past does not count", func(d *deadlines) { d.jobs.at, d.resync = at(-1), now }, time.Time{}, []time.Time{at(8)}, at(8)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDeadlines(time.Minute)
			d.now = now
			tt.set(&d)
			if got := d.next(tt.answered, tt.others...); !got.Equal(tt.want) {
				t.Errorf("got %s, want %s", got.Sub(now), tt.want.Sub(now))
			}
		})
	}
}

// A job that failed is tried again after a pause that grows, and at once after a
// success.
func TestDeadlines_retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeadlines(time.Minute)
		begins := func(want bool) {
			t.Helper()
			if d.now = time.Now(); d.jobs.due(d.now) != want {
				t.Errorf("a job may begin: got %t, want %t", !want, want)
			}
		}
		begins(true)
		for _, pause := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			d.jobs.failed()
			backoff.Sleep(t.Context(), pause-1)
			begins(false)
			backoff.Sleep(t.Context(), 1)
			begins(true)
		}
		d.jobs.failed()
		d.passCompleted(time.Hour)
		begins(true)
		d.jobs.failed()
		backoff.Sleep(t.Context(), minJobPause)
		begins(true)
	})
}

// A lapse makes a full pass due at once, the next ones later and later, and at once
// again after lapseMemory. It never delays a pass that is due anyway.
func TestDeadlines_lapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeadlines(time.Minute)
		d.passCompleted(time.Hour)
		lapse := func(want time.Duration) {
			t.Helper()
			if got := d.lapse(); got != want || !d.resync.Equal(time.Now().Add(want)) || !d.lapsed {
				t.Errorf("got a pause of %s and a pass at %s, want %s", got, time.Until(d.resync), want)
			}
			if d.passCompleted(time.Hour); d.lapsed {
				t.Error("the objects are kept, and count as lapsed")
			}
		}
		for _, want := range []time.Duration{0, minJobPause, 2 * minJobPause, 4 * minJobPause} {
			lapse(want)
		}
		backoff.Sleep(t.Context(), lapseMemory+1)
		lapse(0)
		d.lapse()
		d.lapse()
		soon := time.Now().Add(1)
		d.resync = soon
		if d.lapse(); !d.resync.Equal(soon) {
			t.Errorf("a lapse moved a pass by %s", d.resync.Sub(soon))
		}
	})
}

func TestDeadlines_passDue(t *testing.T) {
	d := newDeadlines(time.Minute)
	if d.now = time.Now(); d.passDue() {
		t.Error("another pass is due before the first one")
	}
	d.passCompleted(time.Minute)
	if d.passDue() {
		t.Error("a pass is due right after one")
	}
	if d.now = d.resync; !d.passDue() {
		t.Error("no pass is due after the interval")
	}
}
