package main

import (
	"cmp"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// screen describes the place where output appears.
type screen struct {
	width    int // in columns; 0: lines are not wrapped
	height   int // in lines; 0: unknown
	terminal bool
	coloured bool
	// commands are the commands of this program: they are wrapped in a way that can be pasted. Nil: none is known.
	commands *cobra.Command
}

const (
	// minWidth is the least for which the width of a terminal is believed.
	minWidth = 40
	// defaultWidth is for a help that is not shown on a terminal.
	defaultWidth = 80
)

// screenOf returns the screen that w is. Only a terminal limits the width, since a program that reads lines wants
// whole ones. The exception is COLUMNS, which watch(1) sets.
func screenOf(w io.Writer, lookupEnv func(string) (string, bool), commands *cobra.Command) screen {
	out := screen{commands: commands}
	if out.width, out.height, out.terminal = terminalSize(w); out.terminal {
		style, _ := lookupEnv("NO_COLOR")
		kind, _ := lookupEnv("TERM")
		out.coloured = style == "" && kind != "dumb"
		return out
	}
	text, _ := lookupEnv("COLUMNS")
	if n, err := strconv.Atoi(text); err == nil && n >= minWidth {
		out.width = n
	}
	return out
}

// terminalSize returns the size of the terminal that w is, if it is one.
func terminalSize(w io.Writer) (width, height int, terminal bool) {
	f, ok := uncounted(w).(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < minWidth {
		return defaultWidth, height, true
	}
	return width, height, true
}

// helpScreen is the place of a help, which is always wrapped.
func helpScreen(w io.Writer) screen {
	width, _, _ := terminalSize(w)
	return screen{width: cmp.Or(width, defaultWidth)}
}
