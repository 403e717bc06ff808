package main

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// printErrorReport prints why a command with -o json failed, unless stdout contains a document already, which says more.
func (p program) printErrorReport(cmd *cobra.Command, err error) {
	form := cmd.Flags().Lookup("output")
	if err == nil || err.Error() == "" || form == nil || form.Value.String() != "json" || terminal.HasText(p.Stdout) {
		return
	}
	_ = p.PrintJSON(map[string]string{"error": err.Error()}) // stderr gets the error in any case
}
