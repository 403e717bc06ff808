package cluster

import (
	"slices"
	"testing"

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
