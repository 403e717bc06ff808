package reach

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
)

// Without a majority, the commands that a command names reach the etcd of this machine.
func TestEtcd_complete_noMajority(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/lockstep/", AttemptTimeout: attemptTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Get(t.Context(), "/x"); err == nil {
		t.Fatal("nothing listens there")
	}
	const flags = " --data-dir=/data/x"
	got := Etcd{Client: client, Flags: flags, DataDir: "/data/x"}.complete(t.Context(), etcd.ErrNoLeader).Error()
	for _, command := range []string{"members", "snapshot lockstep.snapshot", "restore lockstep.snapshot --confirm-stopped"} {
		if !strings.Contains(got, "sidecar cluster "+command+flags) {
			t.Errorf("%q is without the flags in\n%s", command, got)
		}
	}
	if strings.Contains(got, flags+flags) {
		t.Errorf("flags are doubled in\n%s", got)
	}
}
