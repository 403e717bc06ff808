package variables

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster"
)

// Members that are replaced one after another leave services with fewer servers, which is said.
func TestMissingServers(t *testing.T) {
	members := func(servers ...string) cluster.Membership { return cluster.Membership{Servers: servers} }
	var logged bytes.Buffer
	k := New(Config{Node: "n", Embedded: true, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, step := range []struct {
		now  cluster.Membership
		used string
		want []string
	}{
		{members(), "", nil},
		{members("a", "b", "c"), "a,b,c", nil},
		{members("b", "c", "e"), "a,b,c", []string{"a"}},
		{members("c", "e", "f"), "a,b,c", []string{"a", "b"}},
		{members("c", "e", "f"), "a,b,c", []string{"a", "b"}},
		{members("e", "f", "g"), "e,f,g", nil},
		{cluster.Membership{Local: true, Servers: []string{"h", "e"}}, "h", nil},
		{cluster.Membership{Local: true, Servers: []string{"h"}}, "h", nil},
	} {
		k.useServers(step.now)
		used, got := k.Variables().Get().EtcdServers, k.Missing().Get()
		want := "a,b,c, of which " + strings.Join(step.want, " and ") + " left the cluster"
		if used != step.used || got.Servers != len(step.want) || len(step.want) > 0 && !strings.Contains(got.Message, want) {
			t.Errorf("members %v: got %q and %+v, want %q without %q", step.now.Servers, used, got, step.used, step.want)
		}
		if got := k.Missing().Get().Message; len(step.want) == 2 && !strings.Contains(got, "all servers (c,e,f), type sidecar cordon n, restart") {
			t.Errorf("got %q", got)
		}
	}
	if n := strings.Count(logged.String(), "\n"); n != 2 {
		t.Errorf("%d lines in the log, want one for each change: %s", n, &logged)
	}
}
