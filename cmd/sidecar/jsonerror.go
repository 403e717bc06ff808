package main

import (
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"
)

// counted is stdout, and notes whether anything was written there.
type counted struct {
	io.Writer
	wrote *atomic.Bool
}

func (c counted) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Writer.Write(b)
}

// uncounted returns the file below, for a child process and for questions about the terminal.
func uncounted(w io.Writer) io.Writer {
	if c, is := w.(counted); is {
		return c.Writer
	}
	return w
}

// errorReport is what a command prints with -o json if it fails before it printed anything else.
type errorReport struct {
	Error string `json:"error"`
}

// printErrorReport prints why a command with -o json failed, unless stdout has a document already, which says more.
func (p program) printErrorReport(cmd *cobra.Command, err error) {
	form := cmd.Flags().Lookup("output")
	if err == nil || err.Error() == "" || form == nil || form.Value.String() != "json" {
		return
	}
	if c, is := p.stdout.(counted); is && c.wrote.Load() {
		return
	}
	_ = p.printJSON(errorReport{err.Error()}) // stderr gets the error in any case
}
