package terminal

import (
	"io"
	"sync/atomic"
)

// counted is stdout, and notes whether anything was written there.
type counted struct {
	io.Writer
	wrote *atomic.Bool
}

// NewOutput returns stdout as a writer that notes whether anything was written there.
func NewOutput(w io.Writer) io.Writer { return counted{w, &atomic.Bool{}} }

func (c counted) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Writer.Write(b)
}

// HasText reports whether anything was written to stdout.
func HasText(w io.Writer) bool {
	c, is := w.(counted)
	return is && c.wrote.Load()
}

// Uncounted returns the file below, for a child process and for questions about the terminal.
func Uncounted(w io.Writer) io.Writer {
	if c, is := w.(counted); is {
		return c.Writer
	}
	return w
}
