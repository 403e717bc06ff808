package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// took returns durations as etcd counts them, of operations that took so many seconds.
func took(seconds ...float64) member.Durations {
	out := member.Durations{}
	for upTo := 0.001; upTo < 9; upTo *= 2 {
		out.Buckets = append(out.Buckets, member.DurationBucket{UpTo: upTo})
	}
	for _, s := range seconds {
		out.Count++
		for i := range out.Buckets {
			if s <= out.Buckets[i].UpTo {
				out.Buckets[i].Count++
			}
		}
	}
	return out
}

func TestRecentHealth_disk(t *testing.T) {
	start := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	type sample struct {
		after  time.Duration // since the first one
		fsyncs []float64     // all since the process started
	}
	for name, tc := range map[string]struct {
		samples []sample
		asked   time.Duration
		want    string // what the warning has; empty: there is none
	}{
		"a fast disk":                       {[]sample{{0, []float64{.001, .02, .1, .12}}}, 0, ""},
		"two slow writes":                   {[]sample{{0, []float64{.2, .2}}}, 0, ""},
		"three within a minute":             {[]sample{{0, []float64{.2, .2}}, {50 * time.Second, []float64{.2, .2, .3}}}, time.Minute, "took 200ms or longer (limit 100ms)"},
		"three, one of them minutes later":  {[]sample{{0, []float64{.2, .2}}, {2 * time.Minute, []float64{.2, .2, .3}}}, 2 * time.Minute, ""},
		"three of many":                     {[]sample{{0, append(slices.Repeat([]float64{.001}, 60), .2, .2, .3)}}, 0, ""},
		"one in twenty":                     {[]sample{{0, append(slices.Repeat([]float64{.001}, 57), .2, .2, .3)}}, 0, "took 200ms"},
		"one that is very slow":             {[]sample{{0, []float64{.01, 2.5}}}, 0, ""},
		"two that are very slow":            {[]sample{{0, append(slices.Repeat([]float64{.001}, 90), 2.5, 2.5)}}, 0, "took 2s or longer"},
		"longer than the last bucket":       {[]sample{{0, []float64{20, 20}}}, 0, "took 8s or longer"},
		"the same counts again":             {[]sample{{0, []float64{2.5, 2.5}}, {4 * time.Minute, []float64{2.5, 2.5}}}, 6 * time.Minute, ""},
		"it holds for five minutes":         {[]sample{{0, []float64{2.5, 2.5}}}, 4 * time.Minute, "took 2s"},
		"the process started again":         {[]sample{{0, []float64{.2, .2, .01}}, {10 * time.Second, []float64{.3}}}, 20 * time.Second, "took 200ms"},
		"and what was counted is forgotten": {[]sample{{0, []float64{.01, .01, .01}}, {10 * time.Second, []float64{.3}}}, 20 * time.Second, ""},
		"it counts from zero":               {[]sample{{0, []float64{.2, .2, .2, .2}}, {7 * time.Minute, []float64{.2, .2, .3}}}, 7 * time.Minute, "took 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, commits := range []bool{false, true} {
				var h recentHealth
				for _, s := range tc.samples {
					m := member.Measures{Fsync: took(s.fsyncs...)}
					if commits {
						m.Fsync, m.Commit = m.Commit, m.Fsync
					}
					h = h.after(m, start.Add(s.after))
				}
				got, is := h.diskWarning(start.Add(tc.asked))
				if is != (tc.want != "") || !strings.Contains(got.Message, tc.want) || is && got.Reason != warn.DiskSlow {
					t.Errorf("got %+v, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestRecentHealth_leaderChanges(t *testing.T) {
	start := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	after := func(h recentHealth, changes uint64, minute int) recentHealth {
		return h.after(member.Measures{LeaderChanges: changes}, start.Add(time.Duration(minute)*time.Minute))
	}
	warned := func(h recentHealth, minute int) string {
		w, is := h.leaderWarning(start.Add(time.Duration(minute) * time.Minute))
		if is != (w.Reason == warn.EtcdLeaderChanges) {
			t.Errorf("got %+v, %t", w, is)
		}
		return w.Message
	}
	h := after(recentHealth{}, 1, 0) // the first leader
	h = after(h, 4, 1)
	if got := warned(h, 1); got != "" {
		t.Errorf("after an upgrade of three nodes: %q", got)
	}
	h = h.losing("cp-2", start.Add(2*time.Minute)).losing("cp-1", start.Add(2*time.Minute)).losing("cp-2", start.Add(3*time.Minute))
	h = after(h, 5, 3)
	if got := warned(h, 3); !strings.Contains(got, "changed 4 times within the last 10 minutes: in that time, these members stopped answering: cp-1, cp-2 (2 times);") {
		t.Errorf("got %q", got)
	}
	if w, _ := h.leaderWarning(start.Add(4 * time.Minute)); !w.Since.Equal(start.Add(time.Minute)) {
		t.Errorf("got %s, want the time of the first change", w.Since)
	}
	if got := warned(h, 11); got != "" {
		t.Errorf("ten minutes later: %q", got)
	}
	h = after(after(h, 0, 4), 1, 5) // the process was started again
	if got := warned(h, 5); !strings.Contains(got, "changed 4 times") {
		t.Errorf("a new process has found its first leader: got %q", got)
	}
	h = after(after(recentHealth{}, 2, 0), 6, 1)
	if got := warned(h, 1); !strings.Contains(got, "changed 5 times within the last 10 minutes; check the disks") {
		t.Errorf("got %q", got)
	}
}

// A leader that hands over because people remove its member is no sign of trouble.
func TestRecentHealth_wantedChanges(t *testing.T) {
	start := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	h := recentHealth{}.after(member.Measures{LeaderChanges: 1}, start)
	for i, second := range []int{100, 200, 300, 400} {
		h = h.after(member.Measures{LeaderChanges: uint64(i + 2)}, at(second)).changing(at(second + 15))
	}
	if w, is := h.leaderWarning(at(420)); is {
		t.Errorf("each belongs to a removal: got %+v", w)
	}
	for i, second := range []int{450, 460, 470, 480} {
		h = h.after(member.Measures{LeaderChanges: uint64(i + 6)}, at(second))
	}
	if w, is := h.leaderWarning(at(480)); !is || !w.Since.Equal(at(450)) || !strings.Contains(w.Message, "changed 4 times") {
		t.Errorf("got %+v", w)
	}
}
