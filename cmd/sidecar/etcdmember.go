package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cluster/member/child"
)

// etcdMemberCommand is the command of the child process in which a sidecar runs its
// etcd member. It is for no user.
func (p program) etcdMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "etcd-member",
		Short:  "Run the etcd member of a sidecar, which starts this command by itself",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := child.Main(cmd.Context(), os.Stdin, p.stdout, p.stderr); code != exitOK {
				return exitError{code: code} // the parent has its message
			}
			return nil
		},
	}
}
