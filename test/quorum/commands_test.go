package quorum

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestCommands_onMember types commands that need only the data directory of a member,
// most of them wrong. Each names the error, and none asks whether the sidecar runs: it
// does.
func TestCommands_onMember(t *testing.T) {
	t.Parallel()
	n := New(t, "").Node("a")
	n.Start()
	n.AwaitRunning()
	program := filepath.Join(cluster.Assets(t, "sidecar"), "sidecar")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	for _, tt := range []struct {
		typed string
		code  int
		want  string
	}{
		{"cluster members", 0, " voter "},
		{"cluster members more", 2, `unexpected argument "more"`},
		{"cluster remove", 2, "expected one ID"},
		{"cluster remove a", 1, "is the only voter; to end this cluster"},
		{"cluster remove ghost", 1, `the members are: node "a" (member `},
		{"cluster token create --ttl=-1h", 2, "must be from 1s to"},
		{"cluster token create --uses=1000", 2, "from 1 to 100 uses"},
		{"cluster token create --etcd-prefix=/other/", 1, "--etcd-prefix=/other/"},
		{"cluster token revoke zzz", 2, "is not the ID of a token"},
		{"cluster snapshot /", 1, "choose another file"},
		{"cluster snapshot " + snapshot, 0, "saved"},
		{"cluster restore " + snapshot, 2, "stop the sidecars on all nodes"},
		{"cluster restore " + snapshot + " --confirm-stopped", 1, "is in use by the process"},
		{"node list", 0, "kubernetes_controller,consensus_member"},
		{"node set-roles a", 2, "expected a node ID and its roles"},
		{"node set-roles a kubernetes_controler", 2, "unknown role"},
		{"node set-roles a kubernetes_controller,consensus_member", 0, "already has the roles"},
		{"node set-roles a --remove consensus_member", 1, "is the only voter; to end this cluster"},
		{"node set-roles a none", 1, "is the only voter; to end this cluster"},
		{"node set-roles a --add king", 2, "--add: unknown role"},
		{"node set-roles ghost none", 1, "the node has no record"},
		{"node remove a", 2, "add --confirm-stopped"},
		{"node remove a --confirm-stopped", 1, "the node is alive"},
		{"store show", 0, "/lockstep/"},
		{"store adopt", 2, "set either --kubeconfig"},
		{"store adopt --id=zzz", 2, "32 hexadecimal digits"},
		{"store adopt --kubeconfig=/nowhere", 1, "no such file"},
		{"store delete", 1, "in use by the sidecars of these nodes: a"},
		{"store delete --yes", 1, "--force"},
		{"store delete --yes --etcd-prefix=/other/", 0, "There is nothing to delete below /other/"},
		{"store delete everything", 2, `unexpected argument "everything"`},
		{"cluster members --etcd-servers=http://127.0.0.1:1", 2, "set either this or --data-dir"},
	} {
		args := append(strings.Fields(tt.typed), "--data-dir="+n.Dir)
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		code := 0
		if ended := (&exec.ExitError{}); errors.As(err, &ended) {
			code = ended.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != tt.code || !strings.Contains(string(out), tt.want) || strings.Contains(string(out), "running?") {
			t.Errorf("$ sidecar %s: exit code %d, want %d with %q:\n%s", tt.typed, code, tt.code, tt.want, out)
		}
	}
}
