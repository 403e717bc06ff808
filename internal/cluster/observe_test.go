package cluster

import (
	"context"
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
	if len(got) != 2 || got[0].Node != "a" || got[0].Address != "10.0.0.1" || got[0].Healthy || got[0].Problem != unanswered || !got[1].Learner {
		t.Errorf("got %+v", got)
	}
}
