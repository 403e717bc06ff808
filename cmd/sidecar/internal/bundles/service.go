package bundles

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/role/service"
)

// serviceCommand is sidecar service.
func (p program) serviceCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "service",
		Short: "Validate a directory of services",
		Long: `Validate a directory of services: what a node runs for its roles, one file for each
service. These commands start nothing.`,
	}, p.serviceValidateCommand())
}

func (p program) serviceValidateCommand() *cobra.Command {
	read := service.Load
	var skipFiles bool
	output := console.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Print everything that is wrong with a directory of services",
		Long: `Print everything that is wrong with a directory of services, with file and line. If all
is right, print the services in the order in which they start.

The programs and directories that services name must exist on this machine. With
--skip-files they need not, so this fits a pipeline that builds releases. The
manifests of static pods must exist in any case.

Exit code 1: a service is invalid.`,
		Args: oneDir(", the directory of the services"),
		RunE: func(_ *cobra.Command, args []string) error {
			if skipFiles {
				read = service.Check
			}
			services, err := read(args[0])
			if output.Value == "json" {
				problems, other := fileProblems(err)
				if other != nil {
					return other
				}
				if failed := p.PrintJSON(servicesReport{err == nil, newServiceReports(services), problems}); failed != nil || err == nil {
					return failed
				}
				return console.ExitError{Code: console.ExitFailed}
			}
			if err != nil {
				return p.ProblemsIn("services", args[0], err)
			}
			for _, s := range services {
				fmt.Fprintf(p.Stdout, "%s: role %s, %s, stop timeout %s%s\n", s.Name, s.Role, s.Driver(), s.StopTimeout, terminal.When(s.Optional, ", not required"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&skipFiles, "skip-files", skipFiles, "Do not look for programs and directories on this machine.")
	console.BindOutput(cmd, &output)
	return cmd
}
