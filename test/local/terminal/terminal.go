// Package terminal owns what the local launchers have in common in how they
// talk to people: styles that show on a terminal only, and a context that ends
// with Ctrl-C.
package terminal

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Style is how text is shown on a terminal.
type Style string

// The styles, as terminals know them.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Painter puts text in style, or leaves it as it is if the output is not a terminal.
type Painter struct {
	on bool
}

// NewPainter paints if w is a terminal and the user has not asked for none
// (NO_COLOR).
func NewPainter(w io.Writer) Painter {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return Painter{}
	}
	info, err := f.Stat()
	return Painter{on: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Paint returns text in the style.
func (p Painter) Paint(s Style, text string) string {
	if !p.on || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Pad returns text in the style, followed by blanks up to width characters.
func (p Painter) Pad(s Style, text string, width int) string {
	return p.Paint(s, text) + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// Interruptible returns a context that ends with the first Ctrl-C or SIGTERM.
// From then on signals have their usual effect, so that a second one ends a
// program that is stuck while it cleans up. stop undoes it.
func Interruptible() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
