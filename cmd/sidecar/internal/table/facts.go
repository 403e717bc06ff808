package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// fact is one line of a status that is compared with the one before it.
type fact struct {
	title string
	about string // distinguishes it from others with this title
	text  string
}

// WriteChanges prints a line for each fact of a report that is new or changed since the one before; nil: it is the first.
func (t Status) WriteChanges(last *report.Status, r report.Status) {
	var before []fact
	if last != nil {
		before = t.facts(*last)
	}
	at, facts := t.Now.Format(time.TimeOnly), t.facts(r)
	for _, f := range facts {
		if !slices.Contains(before, f) {
			fmt.Fprintf(t.W, "%s  %-9s  %s\n", at, f.title, f.text)
		}
	}
	for _, f := range before {
		if !slices.ContainsFunc(facts, func(is fact) bool { return is.title == f.title && is.about == f.about }) {
			fmt.Fprintf(t.W, "%s  %-9s  no more: %s\n", at, f.title, f.text)
		}
	}
}

// facts returns the contents of a table, except for durations: two reports are compared at one time.
func (t Status) facts(r report.Status) (out []fact) {
	for _, cells := range t.summary(r) {
		text := terminal.Clean(strings.Join(cells[1:], terminal.Gap))
		if cells[0] == "" && len(out) > 0 {
			out[len(out)-1].text += "; " + text
			continue
		}
		out = append(out, fact{title: cells[0], text: text})
	}
	for _, s := range t.sections(r) {
		name, _, _ := strings.Cut(s.title, terminal.Gap)
		for i := 1; i < len(s.rows) && name != "NOT READY"; i++ { // SERVICES shows the change
			out = append(out, factOf(name, s.rows[0], s.rows[i]))
		}
	}
	return out
}

// factOf returns a row of a table as a sentence. A node and a service fill one row; in other tables, the same node
// may fill several.
func factOf(title string, head, cells []string) fact {
	var text strings.Builder
	text.WriteString(terminal.Clean(cells[0]))
	for i, cell := range cells[1:min(len(cells), len(head))] {
		switch name := head[i+1]; name {
		case "FOR", "LAST REPAIR": // ages
		case "WHAT TO DO":
			text.WriteString(": " + terminal.Clean(cell))
		default:
			text.WriteString(terminal.Gap + strings.ToLower(name) + " " + terminal.Clean(cell))
		}
	}
	f := fact{title: title, about: text.String(), text: text.String()}
	if title == "FLEET" || title == "SERVICES" {
		f.about = cells[0]
	}
	return f
}
