package app

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cluster"
)

func TestMemberFaults(t *testing.T) {
	const last = "etcd accepts no writes if another one"
	ok := func(node string) cluster.Observed { return cluster.Observed{Node: node, Healthy: true} }
	down := func(node string) cluster.Observed { return cluster.Observed{Node: node, Address: "10.0.0.9"} }
	learner := cluster.Observed{Node: "l", Learner: true}
	for name, tt := range map[string]struct {
		members []cluster.Observed
		want    []string // the beginning of each
		noSpare bool
	}{
		"an etcd that runs elsewhere":      {},
		"all healthy":                      {members: []cluster.Observed{ok("a"), ok("b"), ok("c")}},
		"a learner that has not caught up": {members: []cluster.Observed{ok("a"), ok("b"), ok("c"), learner}},
		"one of three": {
			members: []cluster.Observed{ok("a"), down("b"), ok("c")}, noSpare: true,
			want: []string{"the etcd member of b (10.0.0.9) is not healthy"},
		},
		"one of five": {
			members: []cluster.Observed{ok("a"), down("b"), ok("c"), ok("d"), ok("e")},
			want:    []string{"the etcd member of b (10.0.0.9) is not healthy"},
		},
		"two of five": {
			members: []cluster.Observed{down("a"), down("b"), ok("c"), ok("d"), ok("e")}, noSpare: true,
			want: []string{"the etcd member of a", "the etcd member of b"},
		},
		"two of three": {members: []cluster.Observed{ok("a"), down("b"), down("c")}},
		"not known":    {members: []cluster.Observed{{ID: "1f"}, ok("b"), ok("c")}, noSpare: true, want: []string{"the etcd member of 1f "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := memberFaults(tt.members)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, text := range got {
				if !strings.HasPrefix(text, tt.want[i]) || strings.Contains(text, last) != tt.noSpare {
					t.Errorf("got %q, want %q, no spare: %t", text, tt.want[i], tt.noSpare)
				}
			}
		})
	}
}
