package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
)

// etcdMemberCommand is the process of this node's etcd member. `sidecar run` starts
// it, and speaks to it through the standard streams.
func (p program) etcdMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    lockstep.MemberCommand,
		Short:  "The process of this node's etcd member, which sidecar run starts",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := lockstep.MemberMain(cmd.Context(), os.Stdin, p.stdout, p.stderr); code != exitOK {
				return exitError{code: code}
			}
			return nil
		},
	}
}
