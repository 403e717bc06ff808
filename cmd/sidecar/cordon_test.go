package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"

	"google.golang.org/protobuf/proto"
)

// TestCordon plays the sidecars: test/e2e has them.
func TestCordon(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := raw.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	record := func(id string, roles protocol.Roles) {
		put("/lockstep/nodes/"+id, fleet.Encode(protocol.Node{ID: protocol.NodeID(id), Version: release(1, 1, 0), Roles: roles}))
	}
	report := func(id string, p *lockstepv1.Presence) {
		t.Helper()
		value, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		put("/lockstep/presence/"+id, value)
	}
	serves := &lockstepv1.Presence{Ready: true, Reason: "Ready", Election: "leading"}
	record("cp-1", protocol.Roles{Controller: true})
	report("cp-1", serves)
	record("dead", protocol.Roles{Controller: true})
	record("worker", protocol.Roles{Worker: true})
	obeyed := make(chan struct{})
	c := command{T: t, endpoint: server.Endpoints()[0]}

	c.want(exitUsage, "expected one ID", "cordon")
	c.want(exitUsage, "--for: -1s: must be 0 or more", "cordon", "cp-1", "--for", "-1s")
	c.want(exitUsage, "--for: 1ms: must be 0, or 1s or more", "cordon", "cp-1", "--for", "1ms")
	c.want(exitUsage, "--timeout: must not be 0", "cordon", "cp-1", "--timeout", "0")
	c.want(exitUsage, "--timeout: -1s: must be more than 0", "uncordon", "cp-1", "--timeout", "-1s")
	c.want(exitFailed, "the node has no record", "cordon", "cp-9")
	c.want(exitFailed, "return another node to service first, or add --force", "cordon", "cp-1")
	c.want(exitOK, "node cp-1 was not cordoned", "uncordon", "cp-1")
	c.want(exitOK, "its gate may be open still", "cordon", "dead")
	c.want(exitOK, "so its gate was closed already", "cordon", "worker")
	c.want(exitOK, "node dead is no longer cordoned; its sidecar is not alive", "uncordon", "dead")

	record("cp-2", protocol.Roles{Controller: true})
	report("cp-2", serves)
	c.want(exitNotReady, "not confirmed in time (100ms): the sidecar of node cp-1 reports Ready, and is leading", "cordon", "cp-1", "--timeout", "100ms")
	// As soon as the record has the cordon, the sidecar closes its gate, then it resigns.
	obeys := func() {
		defer close(obeyed)
		for resp := range raw.Watch(t.Context(), "/lockstep/nodes/cp-1") {
			if len(resp.Events) > 0 {
				break
			}
		}
		report("cp-1", &lockstepv1.Presence{Reason: "Cordoned", Election: "leading"})
		report("cp-1", &lockstepv1.Presence{Reason: "Cordoned", Election: "ineligible"})
	}
	go obeys()
	c.want(exitOK, "node cp-1 is out of service until 20", "cordon", "cp-1", "--for", "10m", "--message", "etcd upgrade")
	<-obeyed
	c.want(exitOK, `"message": "etcd upgrade"`, "node", "list", "-o", "json")
	report("cp-1", &lockstepv1.Presence{Reason: "ReleaseTooOld", Election: "campaigning"})
	c.want(exitOK, "node cp-1 is no longer cordoned; its gate is closed: ReleaseTooOld", "uncordon", "cp-1")
}
