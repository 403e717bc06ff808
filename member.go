package lockstep

import (
	"context"
	"io"

	"github.com/lockstep-dev/lockstep/cluster/member/child"
)

// MemberCommand is the argument by which a sidecar starts its own program as the
// process of an etcd member.
const MemberCommand = "etcd-member"

// MemberMain is the process of an etcd member. The command sidecar calls it; another
// program does so for Options.EtcdMemberCommand, with its standard streams, and ends
// with the exit code that it returns.
func MemberMain(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	return child.Main(ctx, stdin, stdout, stderr)
}
