package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is between two columns.
const gap = "  "

// columnTable prints cells in columns that fit the screen. It wraps a longer cell within its column; if that is
// too narrow, the last cell of each row is below the others.
type columnTable struct {
	screen screen
	rows   [][]string
}

func newColumns(s screen, rows [][]string) columnTable {
	c := columnTable{screen: s}
	for _, cells := range rows {
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		c.rows = append(c.rows, cells)
	}
	return c
}

func (c columnTable) print(w io.Writer) {
	widths := c.natural()
	if c.screen.width == 0 || c.fits(widths) {
		c.printWithin(w, widths)
		return
	}
	if widths = c.shrunk(widths); widths != nil {
		c.printWithin(w, widths)
		return
	}
	c.printBelow(w)
}

// natural returns the width that each column needs without a limit.
func (c columnTable) natural() (widths []int) {
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
func (c columnTable) least(n int) []int {
	out := make([]int, n)
	for _, cells := range c.rows {
		for i, cell := range cells {
			for n, w := range c.screen.words(cell) {
				room := min(w.width(), longWord)
				if n == 0 {
					room += w.spaces
				}
				if w.starts || w.continues {
					room = w.width() + len(continued)
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

func (c columnTable) fits(widths []int) bool {
	return sum(widths)+len(gap)*(len(widths)-1) <= c.screen.width
}

// shrunk returns the widths with which the rows take the fewest lines; nil: none fit.
func (c columnTable) shrunk(natural []int) (best []int) {
	last := len(natural) - 1
	least := c.least(len(natural))
	lowest := 0
	for limit := c.screen.width; limit > 0; limit-- {
		widths := make([]int, len(natural))
		for i := range last {
			widths[i] = min(natural[i], max(least[i], limit))
		}
		widths[last] = c.screen.width - sum(widths) - len(gap)*last
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
func (c columnTable) height(widths []int) (n int) {
	for _, cells := range c.rows[:min(len(c.rows), sampled)] {
		n += len(c.lines(cells, widths))
	}
	return n
}

// lines returns the lines of a row, each with its cells.
func (c columnTable) lines(cells []string, widths []int) (out [][]string) {
	for i, cell := range cells {
		width := widths[i]
		if c.screen.width == 0 {
			width = 0
		}
		for n, part := range c.screen.wrap(cell, width) {
			if n == len(out) {
				out = append(out, make([]string, len(cells)))
			}
			out[n][i] = part
		}
	}
	return out
}

func (c columnTable) printWithin(w io.Writer, widths []int) {
	if c.screen.width == 0 {
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
func (c columnTable) aligned(widths []int) []int {
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
		blank += max(0, widths[i]-utf8.RuneCountInString(cell)) + len(gap)
	}
	fmt.Fprintln(w, out.String())
}

// printBelow prints the last cell of each row below the others.
func (c columnTable) printBelow(w io.Writer) {
	const indent = "    "
	most := len(c.natural())
	for _, cells := range c.rows {
		head, text := cells, ""
		if len(cells) == most {
			head, text = cells[:most-1], cells[most-1]
		}
		for _, line := range c.screen.wrap(strings.Join(head, gap), c.screen.width) {
			fmt.Fprintln(w, line)
		}
		if text == "" {
			continue
		}
		for _, line := range c.screen.wrap(text, c.screen.width-len(indent)) {
			fmt.Fprintln(w, indent+line)
		}
	}
}

// printer prints sections with rows. All texts are cleaned of characters that could control a terminal.
type printer struct {
	w      io.Writer
	screen screen
}

// rows prints cells in columns.
func (t printer) rows(rows [][]string) {
	for _, cells := range rows {
		for i := range cells {
			cells[i] = clean(cells[i])
		}
	}
	newColumns(t.screen, rows).print(t.w)
}

// hanging prints a text behind an indent. Its other lines are indented a little more.
func (t printer) hanging(indent, text string) {
	const more = "  "
	room := 0
	if t.screen.width > 0 {
		room = t.screen.width - len(indent) - len(more)
	}
	for i, line := range t.screen.wrap(clean(text), room) {
		if i > 0 {
			line = more + line
		}
		fmt.Fprintln(t.w, indent+line)
	}
}

// section prints a title and its rows; nil rows: it prints nothing.
func (t printer) section(title string, rows [][]string) {
	if rows == nil {
		return
	}
	t.title(title)
	t.rows(rows)
}

// title begins a section. The text behind its name is indented to the column after that name.
func (t printer) title(text string) {
	name, rest, _ := strings.Cut(clean(text), gap)
	fmt.Fprintln(t.w)
	indent := len(name) + len(gap)
	for i, line := range t.screen.wrap(rest, max(0, t.screen.width-indent)) {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = t.screen.paint(name, titleColour(name)) + gap
		}
		fmt.Fprintln(t.w, strings.TrimRight(before+line, " "))
	}
}
