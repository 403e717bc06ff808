package member_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/internal/cluster/member/child"
)

// childCommand makes this test's binary a child, as the hidden command does with the
// sidecar's.
const childCommand = "etcd-member"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case childCommand:
			os.Exit(child.Main(context.Background(), os.Stdin, os.Stdout, os.Stderr))
		case parentCommand:
			os.Exit(runParent(context.Background(), os.Args[2], os.Args[3]))
		}
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/lockstep-dev/lockstep/test/cluster.startAll"))
}
