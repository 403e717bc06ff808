// Command etcd-member is the process of an etcd member. bin/sidecar has it inside, and starts it
// (docs/adr/0021-a-program-of-its-own-for-the-member.md).
package main

import (
	"context"
	"os"

	"github.com/lockstep-dev/lockstep/internal/cluster/member/child"
)

func main() {
	os.Exit(child.Main(context.Background(), os.Stdin, os.Stdout, os.Stderr))
}
