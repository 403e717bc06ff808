// Package terminal is shared by the local launchers: styles that only a terminal
// shows, and a context that ends with Ctrl-C.
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

// Painter styles text, or leaves it as it is if the output is not a terminal.
type Painter struct {
	on bool
}

// NewPainter returns a painter that styles text if w is a terminal, unless NO_COLOR
// is set or TERM is dumb.
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

// Interruptible returns a context that ends with the first Ctrl-C or SIGTERM. After
// that, signals work as usual: a second one ends a program that hangs in its clean-up.
// stop ends the context and releases its resources.
func Interruptible() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
