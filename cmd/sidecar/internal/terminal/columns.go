package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Gap is between two columns.
const Gap = "  "

// Columns prints cells in columns that fit the screen. It wraps a longer cell within its column; if that is
// too narrow, the last cell of each row is below the others.
type Columns struct {
	screen Screen
	rows   [][]string
}

// NewColumns returns a table of rows. Empty cells at the end of a row are left out.
func NewColumns(s Screen, rows [][]string) Columns {
	c := Columns{screen: s}
	for _, cells := range rows {
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		c.rows = append(c.rows, cells)
	}
	return c
}

// Print prints the rows.
func (c Columns) Print(w io.Writer) {
	widths := c.natural()
	if c.screen.Width > 0 && sum(widths)+len(Gap)*(len(widths)-1) > c.screen.Width {
		if widths = c.shrunk(widths); widths == nil {
			c.printBelow(w)
			return
		}
	}
	c.printWithin(w, widths)
}

// natural returns the width that each column needs without a limit.
func (c Columns) natural() (widths []int) {
	for _, cells := range c.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// least returns the least possible width of each column.
func (c Columns) least(n int) []int {
	out := make([]int, n)
	for _, cells := range c.rows {
		for i, cell := range cells {
			for n, w := range c.screen.Words(cell) {
				room := min(w.width(), longWord)
				if n == 0 {
					room += w.spaces
				}
				if w.starts || w.continues {
					room = w.width() + len(Continued)
				}
				out[i] = max(out[i], room)
			}
		}
	}
	return out
}

const (
	// longWord is the length from which a word is broken, unless it belongs to a command.
	longWord = 24
	// minText is the least width of a last column that contains text.
	minText = 30
	// sampled bounds the rows by which the widths are chosen.
	sampled = 50
)

// shrunk returns the widths with which the rows take the fewest lines; nil: none fit.
func (c Columns) shrunk(natural []int) (best []int) {
	last := len(natural) - 1
	least := c.least(len(natural))
	lowest := 0
	for limit := c.screen.Width; limit > 0; limit-- {
		widths := make([]int, len(natural))
		for i := range last {
			widths[i] = min(natural[i], max(least[i], limit))
		}
		widths[last] = c.screen.Width - sum(widths) - len(Gap)*last
		if widths[last] < min(natural[last], max(least[last], minText)) {
			continue
		}
		if n := c.height(widths); best == nil || n < lowest {
			best, lowest = widths, n
		}
	}
	return best
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}

// height returns how many lines the first rows take.
func (c Columns) height(widths []int) (n int) {
	for _, cells := range c.rows[:min(len(c.rows), sampled)] {
		n += len(c.lines(cells, widths))
	}
	return n
}

// lines returns the lines of a row, each with its cells.
func (c Columns) lines(cells []string, widths []int) (out [][]string) {
	for i, cell := range cells {
		width := widths[i]
		if c.screen.Width == 0 {
			width = 0
		}
		for n, part := range c.screen.Wrap(cell, width) {
			if n == len(out) {
				out = append(out, make([]string, len(cells)))
			}
			out[n][i] = part
		}
	}
	return out
}

func (c Columns) printWithin(w io.Writer, widths []int) {
	if c.screen.Width == 0 {
		widths = c.aligned(widths)
	}
	for _, cells := range c.rows {
		if len(cells) == 0 {
			fmt.Fprintln(w)
		}
		for n, line := range c.lines(cells, widths) {
			shown := slices.Clone(line)
			for i := range line {
				if n == 0 {
					shown[i] = c.screen.painted(c.rows[0], line, i)
				}
			}
			printLine(w, line, shown, widths)
		}
	}
}

// aligned returns the widths of the cells that others follow: a last cell needs no room.
func (c Columns) aligned(widths []int) []int {
	out := make([]int, len(widths))
	for _, cells := range c.rows {
		for i := range max(0, len(cells)-1) {
			out[i] = max(out[i], utf8.RuneCountInString(cells[i]))
		}
	}
	return out
}

// printLine prints the shown form of cells: with colours, which take no width.
func printLine(w io.Writer, cells, shown []string, widths []int) {
	var out strings.Builder
	blank := 0 // before the next cell that contains text
	for i, cell := range cells {
		if cell != "" {
			out.WriteString(strings.Repeat(" ", blank) + shown[i])
			blank = 0
		}
		blank += max(0, widths[i]-utf8.RuneCountInString(cell)) + len(Gap)
	}
	fmt.Fprintln(w, out.String())
}

// printBelow prints the last cell of each row below the others.
func (c Columns) printBelow(w io.Writer) {
	const indent = "    "
	most := len(c.natural())
	for _, cells := range c.rows {
		head, text := cells, ""
		if len(cells) == most {
			head, text = cells[:most-1], cells[most-1]
		}
		for _, line := range c.screen.Wrap(strings.Join(head, Gap), c.screen.Width) {
			fmt.Fprintln(w, line)
		}
		if text == "" {
			continue
		}
		for _, line := range c.screen.Wrap(text, c.screen.Width-len(indent)) {
			fmt.Fprintln(w, indent+line)
		}
	}
}

// Printer prints sections with rows. All texts are cleaned of characters that could control a terminal.
type Printer struct {
	W      io.Writer
	Screen Screen
}

// Rows prints cells in columns.
func (t Printer) Rows(rows [][]string) {
	for _, cells := range rows {
		for i := range cells {
			cells[i] = Clean(cells[i])
		}
	}
	NewColumns(t.Screen, rows).Print(t.W)
}

// Hanging prints a text behind an indent. Its other lines are indented a little more.
func (t Printer) Hanging(indent, text string) {
	const more = "  "
	room := 0
	if t.Screen.Width > 0 {
		room = t.Screen.Width - len(indent) - len(more)
	}
	for _, line := range hanging(indent, indent+more, t.Screen.Wrap(Clean(text), room)) {
		fmt.Fprintln(t.W, line)
	}
}

// Section prints a title and its rows; nil rows: it prints nothing.
func (t Printer) Section(title string, rows [][]string) {
	if rows == nil {
		return
	}
	t.Title(title)
	t.Rows(rows)
}

// Title begins a section. The text behind its name is indented to the column after that name.
func (t Printer) Title(text string) {
	name, rest, _ := strings.Cut(Clean(text), Gap)
	fmt.Fprintln(t.W)
	indent := len(name) + len(Gap)
	lines := t.Screen.Wrap(rest, max(0, t.Screen.Width-indent))
	for _, line := range hanging(t.Screen.Paint(name, titleColour(name))+Gap, strings.Repeat(" ", indent), lines) {
		fmt.Fprintln(t.W, strings.TrimRight(line, " "))
	}
}
