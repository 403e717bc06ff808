package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

func (p program) statusCommand() *cobra.Command {
	var server serverFlags
	var watch bool
	output := choice{value: "table", of: []string{"table", "wide", "json", "yaml"}}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the gate, the leader, the fleet, and what the leader waits for",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := server.client()
			if err != nil {
				return err
			}
			show := shower{w: p.stdout, p: p, form: output.value, screen: p.screen()}
			if watch {
				return p.watchStatus(cmd.Context(), c, &show)
			}
			a, err := c.status(cmd.Context())
			if err != nil {
				return err
			}
			return show.show(a)
		},
	}
	server.bind(cmd.Flags())
	cmd.Flags().VarP(&output, "output", "o", "Output format: "+output.options()+".")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Watch for changes until interrupted.")
	complete(cmd, "output", &output)
	return cmd
}

func (p program) watchStatus(ctx context.Context, c *statusClient, show *shower) error {
	show.follows = true
	last := ""
	return c.follow(ctx, follower{
		each: func(a answer) (bool, error) {
			last = ""
			return false, show.show(a)
		},
		lost: func(err error) {
			if err.Error() != last {
				fmt.Fprintf(p.stderr, "sidecar: %v; retrying\n", err)
			}
			last = err.Error()
		},
	})
}

// shower prints answers in one form.
type shower struct {
	w       io.Writer
	p       program
	form    string
	screen  screen
	follows bool // more answers follow
	shown   int
}

func (s *shower) show(a answer) error {
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

func (s *shower) render(out *bytes.Buffer, a answer) error {
	switch s.form {
	case "json":
		return s.renderJSON(out, a)
	case "yaml":
		text, err := yaml.JSONToYAML(a.raw)
		if err != nil {
			return fmt.Errorf("decode status: %w", err)
		}
		if s.shown > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
		return nil
	}
	if s.follows {
		s.separate(out)
	}
	t := table{w: out, now: s.p.now(), wide: s.form == "wide", screen: s.screen}
	t.write(a.report)
	return nil
}

// renderJSON prints one line for each answer of --watch, so that other programs
// can read it line by line.
func (s *shower) renderJSON(out *bytes.Buffer, a answer) error {
	indent := func() error { return json.Indent(out, a.raw, "", "  ") }
	if s.follows {
		indent = func() error { return json.Compact(out, a.raw) }
	}
	if err := indent(); err != nil {
		return fmt.Errorf("decode status: %w", err)
	}
	out.WriteByte('\n')
	return nil
}

// separate starts a new table: on a terminal in place of the last one, otherwise
// after an empty line.
func (s *shower) separate(out *bytes.Buffer) {
	f, ok := s.w.(interface{ Fd() uintptr })
	switch {
	case ok && term.IsTerminal(int(f.Fd())):
		out.WriteString("\x1b[H\x1b[2J")
	case s.shown > 0:
		out.WriteByte('\n')
	}
}
