package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
)

// While no member answers, all that this node knows are shown, and none as healthy.
func TestObserver_unanswered(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := (&observer{client: client}).ask(ctx, []members.Member{{ID: "b1", Node: "b", Learner: true}, {ID: "a1", Node: "a", Address: "10.0.0.1"}})
	if len(got) != 2 || got[0].Node != "a" || got[0].Address != "10.0.0.1" || got[0].Healthy || got[0].Problem != unlisted || !got[1].Learner {
		t.Errorf("got %+v", got)
	}
	if got := (&observer{client: client}).ask(ctx, []members.Member{{ID: "a1", Node: "a"}}); len(got) != 1 || got[0].Problem != unanswered {
		t.Errorf("the only member: got %+v", got)
	}
}

// Only a member that was asked, and does not answer, hangs.
func TestObservedProblem(t *testing.T) {
	for problem, hangs := range map[string]bool{unanswered: true, unlisted: false, "it has no leader": false, "": false, "another one": false} {
		if got := observedProblem(problem); got == "" || strings.Contains(got, "hangs") != hangs {
			t.Errorf("%q: got %q", problem, got)
		}
	}
}
