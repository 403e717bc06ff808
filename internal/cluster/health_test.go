package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/report"
)

func TestLostMembers(t *testing.T) {
	members := func(healthy ...bool) (out []Observed) {
		for i, h := range healthy {
			out = append(out, Observed{Member: report.Member{ID: string(rune('1' + i)), Node: "cp-" + string(rune('1'+i)), Healthy: h}})
		}
		return out
	}
	for _, tc := range []struct {
		before, now []Observed
		want        []string
	}{
		{nil, members(true, false), nil},
		{members(true, true, false), members(true, false, false), []string{"cp-2"}},
		{members(true, false), members(true, true), nil},
		{members(true, true), members(false), []string{"cp-1"}},
	} {
		if got := lostMembers(tc.before, tc.now); !slices.Equal(got, tc.want) {
			t.Errorf("from %v to %v: got %v, want %v", tc.before, tc.now, got, tc.want)
		}
	}
}

func TestMemberLeaves(t *testing.T) {
	of := func(id string, leaves bool) Observed {
		o := Observed{Member: report.Member{ID: id}}
		if leaves {
			o.LeavingSince = report.At(time.Now())
		}
		return o
	}
	before := []Observed{of("1", false), of("2", true)}
	for name, tt := range map[string]struct {
		before, now []Observed
		want        bool
	}{
		"the same":            {before, before, false},
		"one begins":          {before, []Observed{of("1", true), of("2", true)}, true},
		"one left":            {before, before[:1], true},
		"one joined":          {before, append(slices.Clone(before), of("3", false)), false},
		"the first are known": {nil, before, false},
	} {
		if got := memberLeaves(tt.before, tt.now); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
