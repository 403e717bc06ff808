package roles_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	manager "github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/quorum"
)

// This file contains the ways in which the node of TestOrder runs its service.

// withServer starts an etcd that the node shares with others.
func (o *order) withServer() {
	o.Helper()
	o.cluster = cluster.NewForTest(o.T, "sidecar")
	o.raw, o.set.Etcd = o.cluster.Etcd.Client(o), o.cluster.Endpoints()[0]
	o.reach = "--etcd-servers=" + o.set.Etcd
	o.args = []string{o.reach, "--node-address=127.0.0.1"}
	if err := o.cluster.WriteKubeconfig(o.kubeconfig(), "https://127.0.0.1:1"); err != nil {
		o.Fatal(err)
	}
}

func (o *order) withProcess() {
	o.Helper()
	o.withServer()
	o.install = func(s settings) { o.writeService(s, fmt.Sprintf("process: {command: %s}", o.command(s))) }
}

func (o *order) withPod() {
	o.Helper()
	o.withServer()
	o.set.Socket = true
	pods := filepath.Join(o.dir, "pods")
	if err := os.Mkdir(filepath.Join(o.dir, "services", "manifests"), 0o700); err != nil {
		o.Fatal(err)
	}
	o.install = func(s settings) {
		const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: api, namespace: kube-system}\n" +
			"spec: {hostNetwork: true, containers: [{name: api, image: api, command: %s}]}\n"
		o.write("services/manifests/api.yaml", fmt.Sprintf(pod, o.command(s)))
		o.writeService(s, fmt.Sprintf("staticPod: {manifest: manifests/api.yaml, directory: %s}", pods))
	}
	startPods(o.T, filepath.Join(pods, "lockstep-api.yaml"), o.set.Listen)
}

func (o *order) withUnit() {
	o.Helper()
	o.withServer()
	u, bus := startUnits(o.T)
	o.env = []string{"DBUS_SYSTEM_BUS_ADDRESS=" + bus}
	o.install = func(s settings) {
		u.install(o.commandOf(s))
		o.writeService(s, "systemdUnit: {name: "+unitName+"}")
	}
}

// withEmbedded makes the node a member of an etcd of three. The others are nothing but members,
// so that the node leads, and etcd answers while it is off.
func (o *order) withEmbedded() {
	o.Helper()
	rig := quorum.New(o.T, "")
	first, second, own := rig.Node("x"), rig.Node("y"), rig.Node(nodeID)
	first.Start()
	first.AwaitRunning()
	var token struct{ Command string }
	if err := json.Unmarshal(o.execute("cluster", "token", "create", "--uses=2", "--data-dir="+first.Dir, "-o=json"), &token); err != nil {
		o.Fatal(err)
	}
	join, err := cluster.JoinFlags(token.Command)
	if err != nil {
		o.Fatal(err)
	}
	second.Start(join...)
	for _, n := range []*quorum.Node{first, second} {
		n.AwaitRunning()
		o.execute("node", "set-roles", n.ID, protocol.RoleConsensus, "--force", "--data-dir="+n.Dir)
	}
	reach, err := manager.Reach(first.Dir, "/lockstep/")
	if err != nil {
		o.Fatal(err)
	}
	remote := settings{Etcd: strings.Join(reach.Endpoints, ","), CAFile: reach.CAFile, CertFile: reach.CertFile, KeyFile: reach.KeyFile}
	if o.raw, err = remote.client(); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = o.raw.Close() }) // its context may have ended
	cfg := cluster.Config{Assets: cluster.Assets(o, "sidecar"), Dir: o.TempDir(), LogDir: o.ArtifactDir(), WithoutEtcd: true}
	if o.cluster, err = cluster.New(cfg); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { cluster.CloseForTest(o, o.cluster) })
	if err := o.cluster.WriteKubeconfig(o.kubeconfig(), "https://127.0.0.1:1"); err != nil {
		o.Fatal(err)
	}
	o.reach = "--data-dir=" + first.Dir
	o.powerOff, o.listen = true, own.Address+":8086"
	o.args = append([]string{"--etcd=embedded", "--node-address=" + own.Address, "--insecure-listen"}, join...)
	o.set.Etcd, o.set.CAFile, o.set.CertFile, o.set.KeyFile = "$(ETCD_SERVERS)", "$(ETCD_CAFILE)", "$(ETCD_CERTFILE)", "$(ETCD_KEYFILE)"
	o.install = func(s settings) { o.writeService(s, fmt.Sprintf("process: {command: %s}", o.command(s))) }
}

// execute executes a command of the sidecar's program, as people do, and returns its
// output.
func (o *order) execute(args ...string) []byte {
	o.Helper()
	out, err := exec.CommandContext(o.Context(), filepath.Join(cluster.Assets(o, "sidecar"), "sidecar"), args...).Output()
	if err != nil {
		o.Fatalf("sidecar %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// commandOf is the command line of the service.
func (o *order) commandOf(s settings) []string {
	o.Helper()
	program, err := os.Executable()
	if err != nil {
		o.Fatal(err)
	}
	arg, err := json.Marshal(s)
	if err != nil {
		o.Fatal(err)
	}
	return []string{program, serviceWord, string(arg)}
}

// command is the same, in JSON.
func (o *order) command(s settings) []byte {
	o.Helper()
	out, err := json.Marshal(o.commandOf(s))
	if err != nil {
		o.Fatal(err)
	}
	return out
}

// writeService writes the services directory.
func (o *order) writeService(s settings, driver string) {
	o.Helper()
	o.write("services/api.yaml", fmt.Sprintf(`apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: api}
role: kubernetes_controller
%s
readiness:
  httpGet: {url: "http://%s"}
  periodSeconds: 1
stopTimeout: 20s
`, driver, s.Listen))
}
