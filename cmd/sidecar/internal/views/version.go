package views

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
)

// versionOutput is the JSON form of `sidecar version`.
type versionOutput struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	Date      string `json:"date"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// versionCommand is sidecar version.
func (p program) versionCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return PrintVersion(p.Program, output.Value)
		},
	}
	console.BindOutput(cmd, &output)
	return cmd
}

func versionFacts() versionOutput {
	info := buildinfo.Get()
	return versionOutput{
		Version: info.Version, Commit: info.Commit, Date: info.Date,
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// PrintVersion prints the version of this program.
func PrintVersion(p console.Program, form string) error {
	out := versionFacts()
	if form == "json" {
		return p.PrintJSON(out)
	}
	words := []string{"sidecar", out.Version, out.Commit, out.Date, out.GoVersion, out.Platform}
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	if _, err := fmt.Fprintln(p.Stdout, strings.Join(words, " ")); err != nil {
		return fmt.Errorf("print version: %w", err)
	}
	return nil
}
