//go:build !packed_member

package lockstep

import (
	"context"
	"io"

	"github.com/lockstep-dev/lockstep/internal/cluster/member/child"
)

// MemberMain is the main function of an etcd member's process. The command sidecar calls it.
// Another program calls it for Embedded.MemberCommand, with its standard streams, and exits with
// the code that it returns. With the build tag packed_member it does not exist.
func MemberMain(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	return child.Main(ctx, stdin, stdout, stderr)
}
