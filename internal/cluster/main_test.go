package cluster

import (
	"context"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/lockstep-dev/lockstep/internal/cluster/member/child"
)

// childCommand makes this test's binary a member, as the hidden command does with the
// sidecar's.
const childCommand = "etcd-member"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		os.Exit(child.Main(context.Background(), os.Stdin, os.Stdout, os.Stderr))
	}
	wal.SegmentSizeBytes = 1 << 16 // few tests write more
	os.Exit(m.Run())
}
