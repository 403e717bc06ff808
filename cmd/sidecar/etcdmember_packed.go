//go:build packed_member

package main

import (
	"context"
	_ "embed" // the program
	"os"
	"strings"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/internal/packed"
)

// The Makefile makes both files from cmd/etcd-member.
var (
	//go:embed etcd-member.gz
	memberGzip []byte
	//go:embed etcd-member.sha256
	memberSum string
)

// memberMain becomes the etcd member, which is unpacked into a directory.
func (program) memberMain(_ context.Context, dir string) error {
	return packed.Program{Name: lockstep.MemberCommand, Gzip: memberGzip, Sum: strings.TrimSpace(memberSum)}.Exec(dir, os.Environ())
}
