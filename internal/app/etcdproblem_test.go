package app

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cluster"
)

// A node with a member of its own does not have --etcd-servers. On its way into the
// cluster, it says what the cluster manager says.
func TestDiagnoseEtcd_embedded(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	cfg := configure(t, "", newCountingAPI(t))
	cfg.Embedded = &cluster.Embedded{DataDir: t.TempDir(), Node: "me", Address: "127.0.0.1", ClientPort: port}
	cfg.Etcd = cfg.Embedded.EtcdConfig("/lockstep/")
	cfg.Etcd.CAFile, cfg.Etcd.CertFile, cfg.Etcd.KeyFile = "", "", "" // no file is read before the connection
	a, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	for _, tc := range []struct {
		status cluster.Status
		want   string
	}{
		{cluster.Status{State: cluster.CreatingCluster}, "this node is on its way into its cluster; the row CLUSTER of sidecar status has more"},
		{cluster.Status{State: cluster.JoiningCluster, Problem: "the cluster is busy"}, "the cluster is busy"},
		{cluster.Status{State: cluster.Running}, "connection refused; no etcd member runs there: check the sidecar of that node, and its log (worker=etcd-member)"},
	} {
		a.cluster.Status().Set(tc.status)
		if got := a.diagnoseEtcd(t.Context()); !strings.HasSuffix(got, tc.want) || strings.Contains(got, "--etcd-servers") {
			t.Errorf("%s: got %q, want %q", tc.status.State, got, tc.want)
		}
	}
}
