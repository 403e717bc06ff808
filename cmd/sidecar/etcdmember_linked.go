//go:build !packed_member

package main

import (
	"context"
	"os"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// memberMain is the etcd member: a program built without make links etcd's server in.
func (p program) memberMain(ctx context.Context, _ string) error {
	if code := lockstep.MemberMain(ctx, os.Stdin, terminal.Uncounted(p.Stdout), p.Stderr); code != console.ExitOK {
		return console.ExitError{Code: code}
	}
	return nil
}
