package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag that has one of a few values.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string  { return c.value }
func (c *choice) Type() string    { return "string" }
func (c *choice) options() string { return strings.Join(c.of, ", ") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("must be one of %s", c.options())
	}
	c.value = s
	return nil
}

func (c *choice) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.of, cobra.ShellCompDirectiveNoFileComp
}

// newChoice returns a flag with these values, of which the first is the default.
func newChoice(of ...string) choice { return choice{value: of[0], of: of} }

// bindOutput adds the flag --output.
func bindOutput(cmd *cobra.Command, output *choice) {
	cmd.Flags().VarP(output, "output", "o", "Output format: "+output.options()+".")
	complete(cmd, "output", output)
}

// complete lets shells complete the values of a flag.
func complete(cmd *cobra.Command, flag string, c *choice) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c.complete); err != nil {
		panic(err) // the flag does not exist: a mistake in this package
	}
}
