package main

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestBundleReplace(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := raw.Put(t.Context(), "/lockstep/"+key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(id protocol.NodeID, bundle string) {
		put("nodes/"+string(id), fleet.Encode(protocol.Node{ID: id, Version: release(1, 0, 0), Roles: protocol.Roles{Controller: true}, Bundle: bundle}))
	}
	writes := func(bundle string) {
		value, err := status.Encode(protocol.Status{State: protocol.Done, Version: release(1, 0, 0), Bundle: bundle}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		put("kubernetes/reconciler/status", value)
	}
	replace := func(code int, part, from, to string) {
		t.Helper()
		c.want(code, part, "bundle", "replace", "--from", from, "--to", to)
	}

	replace(console.ExitUsage, "--to: \"Acme\": must have lower-case", "base", "Acme")
	replace(console.ExitUsage, "both base", "base", "base")
	c.want(console.ExitUsage, "set --from", "bundle", "replace", "--to", "acme")
	c.want(console.ExitUsage, "--cancel needs", "bundle", "replace", "--to", "acme", "--cancel")
	replace(console.ExitFailed, "no controller is registered", "base", "acme")

	runs("cp-1", "base")
	writes("")
	replace(console.ExitFailed, "the status does not name its bundle", "base", "acme")
	writes("base")
	replace(console.ExitFailed, "no registered node runs the bundle acme (base on cp-1)", "base", "acme")
	runs("cp-2", "acme")
	replace(console.ExitFailed, "the objects are of the bundle base, not of other: check --from", "other", "acme")
	replace(console.ExitFailed, "the objects are of the bundle base already", "acme", "base")
	replace(console.ExitOK, "the bundle acme may replace base, once; it waits until a node with the bundle acme leads (acme on cp-2; base on cp-1)", "base", "acme")
	replace(console.ExitOK, "the bundle acme may replace base, once; it waits", "base", "acme") // again
	replace(console.ExitFailed, "the replacement of base by acme is waiting already", "base", "other")
	replace(console.ExitFailed, "to forget it: sidecar bundle replace --cancel --etcd-servers="+c.endpoint, "base", "other")
	c.want(console.ExitOK, "the replacement of base by acme is forgotten", "bundle", "replace", "--cancel")
	c.want(console.ExitOK, "no replacement is waiting", "bundle", "replace", "--cancel")

	put("kubernetes/reconciler/status/replacement", []byte("garbage"))
	replace(console.ExitOK, "may replace", "base", "acme")
	c.want(console.ExitOK, "forgotten", "bundle", "replace", "--cancel")
	if _, err := raw.Delete(t.Context(), "/lockstep/kubernetes/reconciler/status"); err != nil {
		t.Fatal(err)
	}
	replace(console.ExitOK, "there is no status", "base", "acme")
}
