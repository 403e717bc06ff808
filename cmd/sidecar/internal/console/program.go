package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// Program is the outside world, as all commands see it.
type Program struct {
	Stdout, Stderr io.Writer
	LookupEnv      func(string) (string, bool)
	Now            func() time.Time
	PodLogs        string // a pattern; empty: no logs
	// Commands are all commands of the program; nil: none is known.
	Commands *cobra.Command
}

// Screen returns the screen of stdout.
func (p Program) Screen() terminal.Screen {
	return terminal.ScreenOf(p.Stdout, p.LookupEnv, p.Commands)
}

// Printer prints to stdout.
func (p Program) Printer() terminal.Printer { return terminal.Printer{W: p.Stdout, Screen: p.Screen()} }

// PrintRows prints rows for people, or as JSON the value that they are made of.
func (p Program) PrintRows(form string, v any, rows [][]string) error {
	if form == "json" {
		return p.PrintJSON(v)
	}
	p.Printer().Rows(rows)
	return nil
}

// PrintJSON prints a value as a document.
func (p Program) PrintJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = fmt.Fprintf(p.Stdout, "%s\n", text)
	return err
}

// UntilSignal returns a context that ends with the first SIGTERM, SIGINT or SIGHUP. After that, signals take their
// default effect again: the next one ends the process. SIGHUP reloads nothing: files are read again when they
// change.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
