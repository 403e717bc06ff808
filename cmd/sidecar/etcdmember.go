package main

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// etcdMemberCommand is the process of this node's etcd member. `sidecar run` starts it, and speaks to it through
// the standard streams. Its argument is the directory in which it may be unpacked.
func (p program) etcdMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    lockstep.MemberCommand + " DIR",
		Short:  "The process of this node's etcd member, which sidecar run starts",
		Hidden: true,
		Args:   console.OneArg("DIR"),
		RunE:   func(cmd *cobra.Command, args []string) error { return p.memberMain(cmd.Context(), args[0]) },
	}
}
