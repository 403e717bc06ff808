package quorum

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/smalldisk"
)

// The disk of a node is full when etcd allocates its log: of a node that joins, and of one
// that creates a cluster. The sidecar waits, and says why. The cluster still accepts writes. When
// there is space again, the node finishes by itself, as one member.
func TestDisk_fullForTheLog(t *testing.T) {
	t.Parallel()
	if !smalldisk.Enter(t) {
		return
	}
	const size, tooLittle = 320 << 20, 30 << 20 // etcd allocates 64 MiB for its log at once
	binary := cluster.BuildSteps(t)
	for way, step := range map[string]string{"join": "enrol", "create": "certificate"} {
		t.Run(way, func(t *testing.T) {
			rig := New(t, binary)
			a, b := rig.Node("a"), rig.Node("b")
			disk := smalldisk.Mount(t, size)
			b.Dir = disk + "/data"
			var args []string
			if way == "join" {
				a.Start()
				a.AwaitRunning()
				args = joinArgs(t, a, 1)
			}
			b.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=" + way + "/" + step}, args...)
			b.awaitKilled(t)
			filled := smalldisk.Fill(t, disk)
			info, err := os.Stat(filled)
			if err != nil {
				t.Fatal(err)
			}
			smalldisk.Free(t, filled, info.Size()-tooLittle)
			b.Start(args...)
			b.AwaitCluster("to show that its disk is full", func(now Cluster) error {
				if !strings.Contains(now.Error, "no space left on device") {
					return fmt.Errorf("got %+v", now)
				}
				return nil
			})
			if way == "join" {
				a.Put(a.Client(), "/test/meanwhile", "x")
			}
			smalldisk.Free(t, filled, 0)
			b.AwaitRunning()
			if way == "create" {
				wantOneMember(t, b)
				return
			}
			awaitVoters(a, b)
			wantMembersOf(t, a, "a", "b")
			wantUses(t, a, 1)
			if b.Marker().Phase != datadir.Member {
				t.Errorf("got %+v", b.Marker())
			}
		})
	}
}
