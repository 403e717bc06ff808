package terminal

import (
	"cmp"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Screen describes the place where output appears.
type Screen struct {
	Width    int // in columns; 0: lines are not wrapped
	Height   int // in lines; 0: unknown
	Terminal bool
	Coloured bool
	// Commands are the commands of this program: they are wrapped in a way that can be pasted. Nil: none is known.
	Commands *cobra.Command
}

const (
	// minWidth is the least for which the width of a terminal is believed.
	minWidth = 40
	// DefaultWidth is for a help that is not shown on a terminal.
	DefaultWidth = 80
)

// ScreenOf returns the screen that w is. Only a terminal limits the width, since a program that reads lines wants
// whole ones. The exception is COLUMNS, which watch(1) sets.
func ScreenOf(w io.Writer, lookupEnv func(string) (string, bool), commands *cobra.Command) Screen {
	out := Screen{Commands: commands}
	if out.Width, out.Height, out.Terminal = Size(w); out.Terminal {
		style, _ := lookupEnv("NO_COLOR")
		kind, _ := lookupEnv("TERM")
		out.Coloured = style == "" && kind != "dumb"
		return out
	}
	text, _ := lookupEnv("COLUMNS")
	if n, err := strconv.Atoi(text); err == nil && n >= minWidth {
		out.Width = n
	}
	return out
}

// Size returns the size of the terminal that w is, if it is one.
func Size(w io.Writer) (width, height int, terminal bool) {
	f, ok := Uncounted(w).(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < minWidth {
		return DefaultWidth, height, true
	}
	return width, height, true
}

// HelpScreen is the place of a help, which is always wrapped.
func HelpScreen(w io.Writer) Screen {
	width, _, _ := Size(w)
	return Screen{Width: cmp.Or(width, DefaultWidth)}
}
