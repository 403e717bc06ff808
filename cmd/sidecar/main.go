// Command sidecar is Lockstep: it runs next to a kube-apiserver, takes part in
// the election of the reconciler, and gates the apiserver with its /readyz. This
// package starts it: sidecar run, the help, completion, and variables that belong to
// no flag. The other commands are in the packages below internal/, by topic: views
// shows, nodes and clusters change, bundles validates and plans, kubeadmnode prepares
// a node. They are built on console and reach, which know no command.
package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

func main() {
	p := program{
		Program: console.Program{Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv, Now: time.Now, PodLogs: podLogs},
		environ: os.Environ, run: runSidecar,
	}
	os.Exit(p.main(context.Background(), os.Args[1:]))
}

// runSidecar runs a sidecar until ctx ends.
func runSidecar(ctx context.Context, opts lockstep.Options, log *slog.Logger) error {
	// client-go logs with klog, which uses one logger for the whole process.
	klog.SetSlogLogger(log.With("worker", "client-go"))
	running, stop := context.WithCancel(ctx)
	defer stop()
	needLittleMemory(running, opts)
	sidecar, err := lockstep.New(opts, log)
	if err != nil {
		return runflags.ByFlag(err)
	}
	return sidecar.Run(ctx)
}

// program is the outside world, as the commands see it.
type program struct {
	console.Program
	environ func() []string // NAME=value each; nil: only variables that LookupEnv finds count
	running *runMark
	// run runs a sidecar.
	run func(ctx context.Context, opts lockstep.Options, log *slog.Logger) error
}

// main runs the command that args name and returns the exit code.
func (p program) main(ctx context.Context, args []string) int {
	p.running = new(runMark)
	p.Stdout = terminal.NewOutput(p.Stdout)
	root := p.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsage(root)
	}
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	cmd, err := root.ExecuteContextC(ctx)
	if help := cmd.Flags().Lookup("help"); cmd.CommandPath() == "sidecar run" && (help == nil || !help.Changed) {
		p.endRun(cmd, err)
	}
	p.printErrorReport(cmd, err)
	return console.PrintError(p.Stderr, err)
}
