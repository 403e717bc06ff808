package views

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// watch shows the status until ctx ends: on a terminal, a table that is drawn again each second; elsewhere, the
// changes.
func (s *shower) watch(ctx context.Context, c *reach.Sidecar) error {
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
	return c.Follow(ctx, reach.Follower{
		Each: func(a reach.Answer) (bool, error) {
			last = ""
			return false, each(a)
		},
		Lost: func(err error) {
			if err.Error() != last {
				fmt.Fprintf(s.p.Stderr, "sidecar: %v; retrying\n", err)
			}
			last = err.Error()
		},
	})
}

// drawing is the input of one picture on a terminal: the last status, and why there is no newer one.
type drawing struct {
	last *reach.Answer
	lost error
}

// redrawInterval is how often the ages in a table are drawn again.
const redrawInterval = time.Second

// redraw shows the table as it is now. The terminal is not cleared between two drawings,
// so it does not flicker.
func (s *shower) redraw(ctx context.Context, c *reach.Sidecar) error {
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
		ended <- c.Follow(ctx, reach.Follower{
			Each: func(a reach.Answer) (bool, error) {
				d = drawing{last: &a}
				send(d)
				return false, nil
			},
			Lost: func(err error) {
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
		s.table(&text).Write(d.last.Report)
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

// showChanges returns a function that prints a line for each fact that is new or changed since the answer before.
func (s *shower) showChanges() func(reach.Answer) error {
	var last *report.Status
	return func(a reach.Answer) error {
		var out bytes.Buffer
		s.table(&out).WriteChanges(last, a.Report)
		last = &a.Report
		if _, err := s.w.Write(out.Bytes()); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
		return nil
	}
}
