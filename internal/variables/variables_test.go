package variables

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster"
)

// Members that are replaced one after another leave services with fewer servers, which is said.
func TestMissingServers(t *testing.T) {
	members := func(servers ...string) cluster.Membership { return cluster.Membership{Servers: servers} }
	used := ""
	for _, step := range []struct {
		now  cluster.Membership
		used string
		want []string
	}{
		{members(), "", nil},
		{members("a", "b", "c"), "a,b,c", nil},
		{members("b", "c", "e"), "a,b,c", []string{"a"}},
		{members("c", "e", "f"), "a,b,c", []string{"a", "b"}},
		{members("e", "f", "g"), "e,f,g", nil},
		{cluster.Membership{Local: true, Servers: []string{"h", "e"}}, "h", nil},
		{cluster.Membership{Local: true, Servers: []string{"h"}}, "h", nil},
	} {
		used = serversFor(used, step.now)
		if got := missingServers(used, step.now); used != step.used || !slices.Equal(got, step.want) {
			t.Errorf("members %v: got %q without %q, want %q without %q", step.now.Servers, used, got, step.used, step.want)
		}
	}
}
