package quorum

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// unpacked has the directories of the nodes' etcd member programs, by the sidecars' program. Most of them were deleted when
// their test ended.
var unpacked = struct {
	sync.Mutex

	dirs map[string][]string
}{dirs: map[string][]string{}}

// shareProgram links the etcd member's program that another node of this process has unpacked into the directory of a node
// without one. The sidecar uses it, because it has the right sum. To unpack it computes ten times as much, and these tests
// start some hundred members. If no node has it, or on another disk, the sidecar unpacks it.
func (n *Node) shareProgram() {
	unpacked.Lock()
	defer unpacked.Unlock()
	sidecar, dir := n.rig.cluster.SidecarBinary(), datadir.Layout(n.Dir).Program()
	others := unpacked.dirs[sidecar]
	unpacked.dirs[sidecar] = append(others, dir)
	if _, err := os.Lstat(dir); err == nil {
		return
	}
	for _, other := range slices.Backward(others) {
		programs, err := filepath.Glob(filepath.Join(other, "etcd-member-????????????"))
		if err != nil || len(programs) == 0 {
			continue
		}
		if os.MkdirAll(dir, 0o700) == nil && os.Link(programs[0], filepath.Join(dir, filepath.Base(programs[0]))) == nil {
			return
		}
	}
}
