package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag that has one of a few values.
type Choice struct {
	Value string
	Of    []string
}

func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return "string" }

// Options lists the values in a sentence.
func (c *Choice) Options() string { return strings.Join(c.Of, ", ") }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Of, s) {
		return fmt.Errorf("must be one of %s", c.Options())
	}
	c.Value = s
	return nil
}

// NewChoice returns a flag with these values, of which the first is the default.
func NewChoice(of ...string) Choice { return Choice{Value: of[0], Of: of} }

// BindOutput adds the flag --output.
func BindOutput(cmd *cobra.Command, output *Choice) {
	cmd.Flags().VarP(output, "output", "o", "Output format: "+output.Options()+".")
}
