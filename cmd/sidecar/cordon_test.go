package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

// TestCordon plays the sidecars; test/e2e runs real ones.
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
	c := command{T: t, endpoint: server.Endpoints()[0]}

	c.want(console.ExitUsage, "expected one ID", "cordon")
	c.want(console.ExitUsage, "--for: -1s: must be 0 or more", "cordon", "cp-1", "--for", "-1s")
	c.want(console.ExitUsage, "--for: 1ms: must be 0, or 1s or more", "cordon", "cp-1", "--for", "1ms")
	c.want(console.ExitUsage, "--timeout: must not be 0", "cordon", "cp-1", "--timeout", "0")
	c.want(console.ExitUsage, "--timeout: -1s: must be more than 0", "uncordon", "cp-1", "--timeout", "-1s")
	c.want(console.ExitFailed, "the node has no record; these have one: cp-1, dead, worker", "cordon", "cp-9")
	c.want(console.ExitFailed, `{
  "error": "`, "cordon", "cp-9", "-o", "json")
	c.want(console.ExitFailed, "return another node to service first, or add --force", "cordon", "cp-1")
	c.want(console.ExitOK, "node cp-1 was not cordoned", "uncordon", "cp-1")
	c.want(console.ExitOK, "its gate may be open still", "cordon", "dead")
	c.want(console.ExitOK, "so its gate was closed already", "cordon", "worker")
	c.want(console.ExitOK, "node dead is no longer cordoned; its sidecar is not alive", "uncordon", "dead")

	record("cp-2", protocol.Roles{Controller: true})
	report("cp-2", serves)
	wantUnconfirmed(c)
	// As soon as the record contains the cordon, the sidecar closes its gate, then it resigns.
	presence := func(election string) string {
		value, err := proto.Marshal(&lockstepv1.Presence{Reason: "Cordoned", Election: election})
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	closed, resigned := presence("leading"), presence("ineligible")
	now, err := raw.Get(t.Context(), "/lockstep/nodes/cp-1")
	if err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(t.Context())
	changes := raw.Watch(watching, "/lockstep/nodes/cp-1", clientv3.WithRev(now.Header.Revision+1))
	obeyed := make(chan error, 1)
	go func() {
		for resp := range changes {
			if len(resp.Events) > 0 {
				_, first := raw.Put(t.Context(), "/lockstep/presence/cp-1", closed)
				_, second := raw.Put(t.Context(), "/lockstep/presence/cp-1", resigned)
				obeyed <- errors.Join(first, second)
				return
			}
		}
		obeyed <- errors.New("the record did not change")
	}()
	c.want(console.ExitOK, "node cp-1 is out of service until 20", "cordon", "cp-1", "--for", "10m", "--message", "etcd upgrade", "--timeout", "1m")
	cancel() // if the command failed, the record may be as it was
	if err := <-obeyed; err != nil {
		t.Fatal(err)
	}
	c.want(console.ExitOK, `"message": "etcd upgrade"`, "node", "list", "-o", "json")
	report("cp-1", &lockstepv1.Presence{Reason: "ReleaseTooOld", Election: "campaigning"})
	c.want(console.ExitOK, "node cp-1 is no longer cordoned; its gate is closed: ReleaseTooOld", "uncordon", "cp-1")
	c.want(console.ExitOK, `"cordoned": false`, "uncordon", "cp-1", "-o", "json")
}

// wantUnconfirmed cordons cp-1, which does not confirm it. A timeout may end before the
// presence is read; a longer one does not.
func wantUnconfirmed(c command) {
	c.Helper()
	const reported = "the sidecar of node cp-1 reports Ready, and is leading"
	for timeout := 100 * time.Millisecond; ; timeout *= 2 {
		code, stdout, stderr := c.run("cordon", "cp-1", "--timeout", timeout.String())
		if want := fmt.Sprintf("not confirmed in time (%s): ", timeout); code != console.ExitNotReady || !strings.Contains(stderr, want) {
			c.Fatalf("exit %d, want %d and %q in\n%s%s", code, console.ExitNotReady, want, stdout, stderr)
		}
		if strings.Contains(stderr, reported) {
			return
		}
		if timeout > 20*time.Second {
			c.Fatalf("no %q in\n%s", reported, stderr)
		}
	}
}
