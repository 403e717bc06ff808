package main

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestRollback(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := raw.Put(t.Context(), "/lockstep/"+key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(id protocol.NodeID, needs protocol.Version) {
		put("nodes/"+string(id), fleet.Encode(protocol.Node{
			ID: id, Version: release(1, 1, 0), MinReconciler: needs.Release, Roles: protocol.Roles{Controller: true},
		}))
	}
	c.want(console.ExitUsage, "--to: required", "rollback", "begin")
	c.want(console.ExitUsage, "--to:", "rollback", "begin", "--to", "newest")
	c.want(console.ExitUsage, "--for: must be between", "rollback", "begin", "--to", "1.0.0", "--for", "1s")
	c.want(console.ExitFailed, "there is no reconciler status", "rollback", "begin", "--to", "1.0.0")
	c.want(console.ExitOK, "no rollback is under way", "rollback", "status")
	c.want(console.ExitOK, "no rollback is under way", "rollback", "end")

	value, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: release(1, 1, 0), MinCompatible: release(1, 1, 0).Release, ContentRelease: release(1, 1, 0).Release,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	put("kubernetes/reconciler/status", value)
	runs("cp-1", release(1, 1, 0))
	runs("cp-2", release(1, 1, 0))
	c.want(console.ExitFailed, "no node of a newer release fits the objects of release 1.0.0 (cp-1 needs 1.1.0 or newer, cp-2 needs 1.1.0 or newer)",
		"rollback", "begin", "--to", "1.0.0")
	c.want(console.ExitOK, "from the stop of the last one until then no node serves; do not use sidecar turn", "rollback", "begin", "--to", "1.0.0", "--force")
	const stops = "until a node of release 1.0.0 starts, no node leads and nothing is repaired\na rollback to 1.0.0 by "
	c.want(console.ExitOK, stops, "rollback", "begin", "--to", "1.0.0", "--force") // again
	c.want(console.ExitOK, "; nothing has changed\nuntil a node of", "rollback", "begin", "--to", "1.0.0", "--force")
	if code, out, _ := c.run("rollback", "begin", "--to", "1.0.0", "--force"); code != console.ExitOK || !strings.HasPrefix(out, "it is under way already, since 2") {
		t.Errorf("got exit code %d, %s", code, out)
	}
	sidecar := newFakeSidecar()
	defer sidecar.Close()
	sidecar.snapshot.Set(httpapi.Snapshot{Local: protocol.Local{ID: "cp-1"}})
	c.want(console.ExitNoTurn, "restarted with 1.0.0, node \"cp-1\" serves only when cp-2 went back, too", "turn", "--server", sidecar.URL, "--wait", "1s", "--", "true")
	if _, out, _ := c.run("rollback", "begin", "--to", "1.0.0", "--force", "-o", "json"); !strings.HasPrefix(out, "{") {
		t.Errorf("with -o json: got %s", out)
	}
	c.want(console.ExitOK, "has ended", "rollback", "end")

	runs("cp-2", release(1, 0, 0))
	c.want(console.ExitOK, "cp-1 needs objects of release 1.1.0 or newer: it has to go back to 1.0.0 before", "rollback", "begin", "--to", "1.0.0")
	read := func() protocol.Rollback {
		t.Helper()
		got, err := raw.Txn(t.Context()).Then(clientv3.OpGet("/lockstep/kubernetes/reconciler/rollback")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		out := fleet.DecodeRollback("/lockstep/kubernetes/reconciler/rollback", etcd.NewListing(got, 0))
		out.Revision = 0 // of each write
		return out
	}
	begun := read()
	c.want(console.ExitOK, "a rollback to 1.0.0 by", "rollback", "begin", "--to", "1.0.0") // again
	if got := read(); got != begun {
		t.Errorf("got %+v when it was begun again, want %+v", got, begun)
	}
	c.want(console.ExitOK, "; only its end has changed\n", "rollback", "begin", "--to", "1.0.0", "--for", "48h")
	if got := read(); !got.Until.After(begun.Until) || got.Since != begun.Since || got.By != begun.By {
		t.Errorf("got %+v when it was begun again for longer, want another end than that of %+v", got, begun)
	}
	c.want(console.ExitFailed, "to end it: sidecar rollback end --etcd-servers="+c.endpoint, "rollback", "begin", "--to", "0.9.0")
	c.want(console.ExitOK, `"blockers": [`, "rollback", "status", "-o", "json")
	c.want(console.ExitOK, `"ended": true`, "rollback", "end", "-o", "json")
}
