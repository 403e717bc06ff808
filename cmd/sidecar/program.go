package main

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

// base is the outside world, as all commands see it.
type base struct {
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
	now            func() time.Time
	podLogs        string // a pattern; empty: no logs
	// commands are all commands of the program; nil: none is known.
	commands *cobra.Command
}

// screen returns the screen of stdout.
func (p base) screen() terminal.Screen { return terminal.ScreenOf(p.stdout, p.lookupEnv, p.commands) }

// printer prints to stdout.
func (p base) printer() terminal.Printer { return terminal.Printer{W: p.stdout, Screen: p.screen()} }

// printRows prints rows for people, or as JSON the value that they are made of.
func (p base) printRows(form string, v any, rows [][]string) error {
	if form == "json" {
		return p.printJSON(v)
	}
	p.printer().Rows(rows)
	return nil
}

func (p base) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", text)
	return err
}

// untilSignal returns a context that ends with the first SIGTERM, SIGINT or SIGHUP. After that, signals take their
// default effect again: the next one ends the process. SIGHUP reloads nothing: files are read again when they
// change.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
