package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// oneNode is a node that one command runs: etcd, kube-apiserver and gate.
type oneNode struct {
	*testing.T
	cluster *cluster.Cluster
	address string
	cfg     cluster.SidecarConfig
	sidecar *cluster.Sidecar
}

// TestOneCommand runs a control plane node by one command: it starts, loses the
// controller role and gets it back, starts its kube-apiserver again that was killed, goes on
// after its sidecar was killed, and stops.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	n := newOneNode(t)
	n.start()
	n.awaitGate()
	first := n.service()
	if !first.Ready || first.Phase != "Running" || n.apiserver() != nil {
		t.Errorf("the gate is open, and the service is %+v, its port: %v", first, n.apiserver())
	}

	n.setRoles("consensus_member")
	n.awaitService("to stop", func(s report.Service) bool { return s.Phase == "Stopped" })
	if n.apiserver() == nil || n.sidecar.Readyz(t.Context()) == nil {
		t.Error("the node has no controller role, and its kube-apiserver or its gate is open")
	}
	n.setRoles("kubernetes_controller,consensus_member")
	n.awaitGate()

	n.killService()
	n.awaitService("to be started again", func(s report.Service) bool { return s.Restarts > 0 && s.Ready })
	if gate := n.sidecar.Readyz(t.Context()); gate != nil || n.service().LastExit == "" {
		t.Errorf("the kube-apiserver was killed: the gate is %v, and lastExit %q", gate, n.service().LastExit)
	}

	if err := n.sidecar.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-n.sidecar.Done()
	n.start()
	n.awaitGate()

	if err := n.sidecar.Stop(); err != nil {
		t.Error(err)
	}
	if err := n.apiserver(); err == nil {
		t.Error("the kube-apiserver outlives its sidecar")
	}
}

func newOneNode(t *testing.T) *oneNode {
	t.Helper()
	all, err := cluster.NodeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	n := &oneNode{T: t, address: all[0]}
	n.cluster = cluster.NewTracingAtForTest(t, []net.IP{net.ParseIP(n.address)}, "kube-apiserver", "sidecar")
	assets := cluster.Assets(t, "kube-apiserver")
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := n.cluster.WriteKubeconfig(kubeconfig, "https://"+net.JoinHostPort(n.address, "6443")); err != nil {
		t.Fatal(err)
	}
	services, err := filepath.Abs("../local/services")
	if err != nil {
		t.Fatal(err)
	}
	n.cfg = cluster.SidecarConfig{
		NodeID: nodeID, Kubeconfig: kubeconfig, Listen: net.JoinHostPort(n.address, "8086"), EtcdInArgs: true,
		Args: []string{
			"--etcd=embedded", "--services=" + services, "--data-dir=" + n.dataDir(dir), "--node-address=" + n.address, "--insecure-listen",
		},
		Env: []string{"ASSETS=" + assets, "KEYS=" + n.cluster.Keys()},
	}
	return n
}

func (n *oneNode) dataDir(dir string) string { return filepath.Join(dir, "data") }

func (n *oneNode) start() {
	n.Helper()
	var err error
	if n.sidecar, err = n.cluster.StartSidecar(n.cfg); err != nil {
		n.Fatal(err)
	}
}

func (n *oneNode) awaitGate() {
	n.Helper()
	cluster.Await(n, "the gate", n.sidecar.Readyz)
}

// setRoles gives the node other roles, as people do.
func (n *oneNode) setRoles(roles string) {
	n.Helper()
	dir := strings.TrimPrefix(n.cfg.Args[2], "--data-dir=")
	cmd := exec.CommandContext(n.Context(), n.cluster.SidecarBinary(), "node", "set-roles", nodeID, roles, "--force", "--data-dir="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("%v: %s", err, out)
	}
}

// killService kills the kube-apiserver: the child of the sidecar that is not its etcd member.
func (n *oneNode) killService() {
	n.Helper()
	all, err := n.sidecar.Children()
	member, memberErr := n.sidecar.Child()
	if err := errors.Join(err, memberErr); err != nil {
		n.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(pid int) bool { return pid == member })
	if len(all) != 1 {
		n.Fatalf("got the processes %v besides the member, want one", all)
	}
	if err := syscall.Kill(all[0], syscall.SIGKILL); err != nil {
		n.Fatal(err)
	}
}

// apiserver returns why nothing listens at the port of the kube-apiserver; nil: it does.
func (n *oneNode) apiserver() error {
	conn, err := net.Dial("tcp", net.JoinHostPort(n.address, "6443"))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (n *oneNode) service() report.Service {
	n.Helper()
	code, body, err := n.sidecar.Get(n.Context(), "/status")
	var shown report.Status
	if err == nil {
		err = json.Unmarshal([]byte(body), &shown)
	}
	if err != nil || len(shown.Services) != 1 {
		n.Fatalf("/status: %d %s, %v", code, body, err)
	}
	return shown.Services[0]
}

func (n *oneNode) awaitService(what string, ok func(report.Service) bool) {
	n.Helper()
	cluster.Await(n, "the service "+what, func(context.Context) error {
		if now := n.service(); !ok(now) {
			return fmt.Errorf("it is %+v", now)
		}
		return nil
	})
}
