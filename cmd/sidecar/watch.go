package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// watch shows the status until ctx ends: on a terminal, a table that is drawn again each second; elsewhere, the
// changes.
func (s *shower) watch(ctx context.Context, c *statusClient) error {
	s.follows = true
	forPeople := s.form == "table" || s.form == "wide"
	if forPeople && s.screen.Terminal {
		return s.redraw(ctx, c)
	}
	each := s.show
	if forPeople {
		each = s.showChanges()
	}
	last := ""
	return c.follow(ctx, follower{
		each: func(a answer) (bool, error) {
			last = ""
			return false, each(a)
		},
		lost: func(err error) {
			if err.Error() != last {
				fmt.Fprintf(s.p.stderr, "sidecar: %v; retrying\n", err)
			}
			last = err.Error()
		},
	})
}

// drawing is the input of one picture on a terminal: the last status, and why there is no newer one.
type drawing struct {
	last *answer
	lost error
}

// redrawInterval is how often the ages in a table are drawn again.
const redrawInterval = time.Second

// redraw shows the table as it is now. The terminal is not cleared between two drawings,
// so it does not flicker.
func (s *shower) redraw(ctx context.Context, c *statusClient) error {
	ctx, cancel := context.WithCancel(ctx)
	changes, ended := make(chan drawing), make(chan error, 1)
	send := func(d drawing) {
		select {
		case changes <- d:
		case <-ctx.Done():
		}
	}
	var following sync.WaitGroup
	following.Go(func() {
		var d drawing
		ended <- c.follow(ctx, follower{
			each: func(a answer) (bool, error) {
				d = drawing{last: &a}
				send(d)
				return false, nil
			},
			lost: func(err error) {
				d.lost = err
				send(d)
			},
		})
	})
	defer following.Wait() // after cancel
	defer cancel()
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	fmt.Fprint(s.w, "\x1b[2J")
	var d drawing
	for {
		select {
		case err := <-ended:
			return err
		case d = <-changes:
		case <-tick.C:
		}
		s.screen.Width, s.screen.Height, _ = terminal.Size(s.w)
		if _, err := s.w.Write(s.draw(d)); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
}

// draw returns the text that replaces the last drawing on the terminal.
func (s *shower) draw(d drawing) []byte {
	var text bytes.Buffer
	if d.lost != nil {
		for _, line := range s.screen.Wrap(terminal.Clean(fmt.Sprintf("sidecar: %v; retrying", d.lost)), s.screen.Width) {
			fmt.Fprintln(&text, s.screen.Paint(line, terminal.Red))
		}
	}
	if d.last != nil {
		s.table(&text).write(d.last.report)
	}
	shown := cut(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"), s.screen)
	return []byte("\x1b[H" + strings.Join(shown, "\x1b[K\n") + "\x1b[K\x1b[J")
}

// cut leaves out the lines that do not fit on the terminal.
func cut(all []string, on terminal.Screen) []string {
	room := on.Height
	if room == 0 {
		return all
	}
	for i, line := range all {
		if room -= screenLines(line, on.Width); room < 0 || room == 0 && i < len(all)-1 {
			all = append(slices.Clone(all[:i]), fmt.Sprintf("(%d more lines, for a higher terminal)", len(all)-i))
			break
		}
	}
	return all
}

// screenLines returns how many lines of a terminal a line takes.
func screenLines(line string, width int) int {
	n := utf8.RuneCountInString(terminal.ColourCode.ReplaceAllString(line, ""))
	return max(1, (n+width-1)/width)
}

// fact is one line of a status that is compared with the one before it.
type fact struct {
	title string
	about string // distinguishes it from others with this title
	text  string
}

// showChanges returns a function that prints a line for each fact that is new or changed since the answer before.
func (s *shower) showChanges() func(answer) error {
	var last *report.Status
	return func(a answer) error {
		var out bytes.Buffer
		now := s.table(&out)
		var before []fact
		if last != nil {
			before = now.facts(*last)
		}
		last = &a.report
		at := now.now.Format(time.TimeOnly)
		facts := now.facts(a.report)
		for _, f := range facts {
			if !slices.Contains(before, f) {
				fmt.Fprintf(&out, "%s  %-9s  %s\n", at, f.title, f.text)
			}
		}
		for _, f := range before {
			if !slices.ContainsFunc(facts, func(is fact) bool { return is.title == f.title && is.about == f.about }) {
				fmt.Fprintf(&out, "%s  %-9s  no more: %s\n", at, f.title, f.text)
			}
		}
		if _, err := s.w.Write(out.Bytes()); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
		return nil
	}
}

// facts returns the contents of a table, except for durations: two reports are compared at one time.
func (t table) facts(r report.Status) (out []fact) {
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
