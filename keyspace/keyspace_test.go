package keyspace

import "testing"

func TestUnder(t *testing.T) {
	for _, prefix := range []string{"/lockstep", "/lockstep/"} {
		k := Under(prefix)
		for got, want := range map[string]string{
			k.Node("a"):       "/lockstep/nodes/a",
			k.Presence("a"):   "/lockstep/presence/a",
			k.Status():        "/lockstep/kubernetes/reconciler/status",
			k.Store():         "/lockstep/store",
			k.Leader(0x1f):    "/lockstep/kubernetes/reconciler/leader/1f",
			k.Leaders() + "*": "/lockstep/kubernetes/reconciler/leader/*",
		} {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if k.NodeOf(k.Node("a.b")) != "a.b" || k.NodeOf(k.Presence("a")) != "a" {
			t.Error("NodeOf is not the inverse of Node and Presence")
		}
	}
}
