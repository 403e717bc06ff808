package views

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// program is the outside world, with the methods of these commands.
type program struct{ console.Program }

// statusCommand is sidecar status.
func (p program) statusCommand() *cobra.Command {
	var server reach.Server
	var watch bool
	output := console.NewChoice("table", "wide", "json", "yaml")
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the gate, the leader, the fleet, and what the leader waits for",
		Long: `Show the gate, the leader, the fleet, and what the leader waits for.

With --watch, a terminal shows the table as it is now, drawn again each second. Into a
pipe or a file, each change is printed in a line, with its time; with -o json, each
status that differs from the one before it.`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := server.Client(p.Program)
			if err != nil {
				return err
			}
			show := shower{w: p.Stdout, p: p, form: output.Value, screen: p.Screen()}
			if watch {
				return show.watch(cmd.Context(), c)
			}
			a, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			return show.show(a)
		},
	}
	server.Bind(cmd.Flags())
	console.BindOutput(cmd, &output)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Watch for changes until interrupted.")
	return cmd
}

// shower prints answers in one form.
type shower struct {
	w       io.Writer
	p       program
	form    string
	screen  terminal.Screen
	follows bool // more answers follow
	shown   int
}

func (s *shower) show(a reach.Answer) error {
	var out bytes.Buffer
	if err := s.render(&out, a); err != nil {
		return err
	}
	s.shown++
	if _, err := s.w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func (s *shower) render(out *bytes.Buffer, a reach.Answer) error {
	switch s.form {
	case "json":
		return s.renderJSON(out, a)
	case "yaml":
		text, err := yaml.JSONToYAML(a.Raw)
		if err != nil {
			return fmt.Errorf("decode status: %w", err)
		}
		if s.shown > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
		return nil
	}
	s.table(out).Write(a.Report)
	return nil
}

// table returns the table of an answer, to be written to out.
func (s *shower) table(out *bytes.Buffer) table.Status {
	return table.Status{Printer: terminal.Printer{W: out, Screen: s.screen}, Now: s.p.Now(), Wide: s.form == "wide"}
}

// renderJSON prints one line for each answer of --watch, so that other programs
// can read it line by line.
func (s *shower) renderJSON(out *bytes.Buffer, a reach.Answer) error {
	indent := func() error { return json.Indent(out, a.Raw, "", "  ") }
	if s.follows {
		indent = func() error { return json.Compact(out, a.Raw) }
	}
	if err := indent(); err != nil {
		return fmt.Errorf("decode status: %w", err)
	}
	out.WriteByte('\n')
	return nil
}
