package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// leftOn is about things that people leave behind on three nodes, one after another: a typing
// error in a service file, an override, and two cordons, of which the last one makes the death
// of the third node an outage.
func leftOn(b *broken) {
	dir := b.bundle("bundle", one)
	nodes := []string{"cp-1", "cp-2", "cp-3"}
	at := func(node, name string) string { return filepath.Join(b.dir, node, name) }
	const service = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: lb}\nrole: kubernetes_controller\nprocess: {command: [/bin/sleep, \"9000000\"]}\n"
	for _, node := range nodes {
		b.must(os.MkdirAll(at(node, "services"), 0o700))
		b.write(at(node, "services/20-lb.yaml"), service)
		b.start(node, dir, func(c *cluster.SidecarConfig) {
			c.Args = append(c.Args, "--services="+at(node, "services"), "--data-dir="+at(node, "data"), "--override-file="+at(node, "override"))
		})
	}
	b.ready(nodes...)
	b.serviceFileRejected(at("cp-3", "services/20-lb.yaml"), service, nodes)
	b.overrideLeftOn(at, nodes)
	b.cordonsLeftOn(nodes)
}

// serviceFileRejected writes a typing error into a service file of cp-3.
func (b *broken) serviceFileRejected(file, service string, nodes []string) {
	b.name = "service-file-rejected"
	b.write(file, service+"readines: {}\n")
	for _, node := range nodes {
		b.says(node, "GATE|ready", "cp-3|its services directory was rejected, and the last valid services stay in use|a restart would fail until it is valid|"+
			file+`:6: unknown field "readines"; known are `, "UPGRADE|do not start the next upgrade: cp-3: its services directory was rejected (see WARNINGS)")
	}
	b.write(file, service)
	b.healed(nodes...)
}

// overrideLeftOn leaves an override on cp-1. A command to end it on another node names cp-1.
func (b *broken) overrideLeftOn(at func(node, name string) string, nodes []string) {
	b.name = "override-left-on"
	sidecar := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	b.run(sidecar, "override", "begin", "--for=24h", "--message=no gate opens", "--yes", "--override-file="+at("cp-1", "override"))
	end := "sidecar override end --override-file=" + at("cp-1", "override")
	for _, node := range nodes {
		b.says(node, "cp-1|AN OPERATOR HAS OVERRIDDEN THE GATE until |(no gate opens)|to end that, type there: "+end,
			"UPGRADE|do not start the next upgrade: cp-1: ")
	}
	out, err := exec.CommandContext(b.Context(), sidecar, "override", "end", "--override-file="+at("cp-3", "override"), "--server="+b.sidecars["cp-3"].URL()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "node cp-1 has one: to end that, type there: sidecar override end") {
		b.Errorf("on cp-3, which has none: %v\n%s", err, out)
	}
	b.types("cp-1", end)
	b.healed(nodes...)
}

// cordonsLeftOn takes cp-2 and cp-3 out of service before cp-1 dies.
func (b *broken) cordonsLeftOn(nodes []string) {
	b.name = "cordons-left-on"
	sidecar := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	etcd := "--etcd-servers=" + strings.Join(b.c.Endpoints(), ",")
	for _, node := range nodes[1:] {
		b.run(sidecar, "cordon", node, "--message=disk change", etcd)
	}
	b.must(b.sidecars["cp-1"].Kill())
	const none = "no node serves: no gate with a ready kube-apiserver is open"
	for node, other := range map[string]string{"cp-2": "cp-3", "cp-3": "cp-2"} {
		b.says(node, "GATE|NOT READY Cordoned for |until an operator ends it (disk change), by |@|; to end that now: sidecar uncordon "+node+" "+etcd,
			"LEADER|none known", "UPGRADE|do not start the next upgrade: no node leads", none, "WARNINGS",
			"cp-1|it is not alive; start it again, unless it is restarting",
			other+"|it was taken out of service|to end that: sidecar uncordon "+other+" "+etcd)
	}
	b.types("cp-2", "sidecar uncordon cp-3")
	b.ready("cp-3")
	b.types("cp-3", "sidecar uncordon cp-2")
	b.ready("cp-2")
	b.shell("cp-2", b.removal("cp-1")) // shown when a restart would be over
	b.healed(nodes[1:]...)
}

// otherBundle starts one node with the bundle of another platform. The leader continues with its
// own; after it stops, the other one holds until the printed command was typed.
func otherBundle(b *broken) {
	b.start("cp-1", b.bundle("bundle", one))
	b.ready("cp-1")
	other := b.bundle("base", one)
	b.write(filepath.Join(other, "bundle.yaml"), "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: base}\n"+one+"\n")
	b.start("cp-2", other)
	replace := "sidecar bundle replace --from platform --to base --etcd-servers=" + strings.Join(b.c.Endpoints(), ",")
	why := "cp-2|runs the bundle base, and the objects are of the bundle platform|start it with the bundle platform (--bundle), or if base is meant to replace platform: " + replace
	const held = "UPGRADE|do not start the next upgrade: cp-2: it runs another bundle than that of the objects"
	b.says("cp-1", "GATE|ready", held, why)
	b.says("cp-2", "PROBLEM|OTHER BUNDLE: "+why, held)
	b.must(b.sidecars["cp-1"].Stop())
	b.explains("cp-1", "ShuttingDown: the sidecar is shutting down")
	b.says("cp-2", "PROBLEM|OTHER BUNDLE: the objects are of the bundle platform, and this leader runs base|"+replace,
		"STEP|"+string(protocol.HoldForBundle)+": it applies and repairs nothing (see PROBLEM)", "UPGRADE|do not start")
	b.types("cp-2", "sidecar bundle replace")
	b.ready("cp-2")
}

// ephemeralCutOff cuts an ephemeral node off from etcd: its gate closes, and the leader
// deletes its record.
func ephemeralCutOff(b *broken) {
	dir := b.bundle("bundle", one)
	expire := func(c *cluster.SidecarConfig) { c.Args = append(c.Args, "--expire-dead-nodes=13s") }
	b.start("cp-1", dir, expire)
	b.start("cp-2", dir, expire)
	etcd := etcdtest.NewProxy(b.T, b.c.Etcd.Addr())
	b.start("cp-4", dir, expire, func(c *cluster.SidecarConfig) {
		c.Args, c.EtcdServers = append(c.Args, "--ephemeral"), []string{"http://" + etcd.Addr()}
	})
	b.ready("cp-1", "cp-2", "cp-4")
	etcd.Cut(etcdtest.Blackhole)
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "cp-4|no, for |deleted in |s", "UPGRADE|the next upgrade may start")
	}
	b.says("cp-4", "GATE|NOT READY Fenced|this node's presence has not been confirmed for |, and leaders ignore its record after 13s", "ETCD|NOT CONNECTED for ")
	for _, node := range []string{"cp-1", "cp-2"} {
		cluster.Await(b.T, "the record of cp-4 to be deleted", func(ctx context.Context) error {
			s, err := b.sidecars[node].Status(ctx)
			if err == nil && len(s.Fleet.Nodes) != 2 {
				err = fmt.Errorf("%d nodes", len(s.Fleet.Nodes))
			}
			return err
		})
	}
	etcd.Restore()
	b.ready("cp-4")
	b.must(b.sidecars["cp-4"].Kill()) // it would wait for its kube-apiserver to stop
}

// healed waits until no node sees an obstacle of the next upgrade any more.
func (b *broken) healed(nodes ...string) {
	b.Helper()
	for _, node := range nodes {
		cluster.Await(b.T, "no obstacle on "+node, statusHas(b.sidecars[node], `"upgradeReady": true`))
	}
}

// rollingBack is a rollback before the first node is rolled back.
func rollingBack(b *broken) {
	dir := b.bundle("bundle", "release: 1.1.0\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.1.0")
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	sidecar := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	b.run(sidecar, "rollback", "begin", "--to=1.0.0", "--etcd-servers="+b.c.Endpoints()[0])
	what := "no node leads until one of release 1.0.0 is alive: stop one node, and start it with 1.0.0; to give it up: sidecar rollback end"
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "ROLLBACK|to 1.0.0 by |, until |"+what, "this node: ineligible for |(only nodes of release 1.0.0 lead: see ROLLBACK)",
			"UPGRADE|do not start the next upgrade: a rollback is under way (see ROLLBACK)")
		table, err := b.table(b.Context(), node)
		b.must(err)
		if n := strings.Count(table, what); n != 1 {
			b.Errorf("%s says %d times what to do:\n%s", node, n, table)
		}
	}
	b.types("cp-1", "sidecar rollback end")
	cluster.Await(b.T, "a node of the newer release to lead again", statusHas(b.sidecars["cp-1"], `"election": "leading"`))
}
