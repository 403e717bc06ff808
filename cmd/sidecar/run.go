package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

func (p program) runCommand() *cobra.Command {
	set := runflags.Default()
	sections := runflags.Sections(&set)
	cmd := &cobra.Command{
		Use:   "run [flags]",
		Short: "Run the sidecar of this node's kube-apiserver",
		Long: `Run the sidecar of this node's kube-apiserver.

The sidecar registers this node in etcd, takes part in the election, applies the
bundle while it leads, and gates the kube-apiserver with its /readyz.

With --services, it also starts and stops what the node runs for its roles: the
kube-apiserver, for example.

SIGTERM, SIGINT or SIGHUP stops it gracefully: /readyz fails immediately, the node
stops leading, and after --shutdown-delay the services stop and the process exits.
With --ephemeral, it first waits until its kube-apiserver has stopped, and deletes
the node's record. A second signal ends the process immediately.`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := set.Check(cmd.Flags()); err != nil {
				return err
			}
			opts := set.Combined()
			log, err := set.Log.Logger(p.Stderr)
			if err != nil {
				return err
			}
			p.beginRun(opts, log)
			period, err := p.gracePeriod()
			if err != nil {
				return err
			}
			warnOfGracePeriod(log, opts.ShutdownDelay, period)
			warnOfMember(log, opts)
			warnOfToken(log, cmd.Flags())
			opts.Flags = runflags.InForce(sections)
			ctx, stop := console.UntilSignal(cmd.Context())
			defer stop()
			return p.run(ctx, opts, log)
		},
	}
	console.UseSections(cmd, sections)
	return cmd
}

// warnOfToken warns of a token on the command line.
func warnOfToken(log *slog.Logger, flags *pflag.FlagSet) {
	if f := flags.Lookup("token"); f.Changed && len(f.Annotations[console.FromEnv]) == 0 {
		log.Warn("the token is on the command line, which ps shows to every user of this machine",
			"remedy", "use --token-file=FILE, or "+console.EnvName("token")+" in the environment")
	}
}

// warnOfMember warns of a node that was a member of the sidecars' own etcd, and starts without it: a flag is
// forgotten, or the node moved to another etcd.
func warnOfMember(log *slog.Logger, opts lockstep.Options) {
	if _, external := opts.Etcd.(lockstep.External); !external {
		return
	}
	if _, err := os.Stat(datadir.Layout(opts.DataDir).Marker()); err == nil {
		log.Warn("the data directory has a member of an etcd that the sidecars run, and this start does not use it",
			"dataDir", opts.DataDir, "remedy", "add --etcd=embedded; or delete the directory if this node has moved to another etcd")
	}
}
