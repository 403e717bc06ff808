package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// newTerminal returns both ends of a terminal: the screen, and a program's stdout.
func newTerminal(t *testing.T, width, height uint16) (seen, stdout *os.File) {
	t.Helper()
	seen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { seen.Close() })
	if err := unix.IoctlSetPointerInt(int(seen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(seen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	stdout, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdout.Close() })
	if err := unix.IoctlSetWinsize(int(stdout.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
	return seen, stdout
}

// onTerminal starts a command on a terminal of 80 columns, and returns its output, line by
// line.
func onTerminal(t *testing.T, p program, env map[string]string, args ...string) *bufio.Scanner {
	t.Helper()
	seen, stdout := newTerminal(t, 80, 24)
	p.Stdout, p.Stderr = stdout, stdout
	p.LookupEnv = func(name string) (string, bool) { v, found := env[name]; return v, found }
	if p.Now == nil {
		p.Now = func() time.Time { return noon }
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.main(ctx, args) }()
	t.Cleanup(func() { cancel(); <-done })
	return bufio.NewScanner(seen)
}

// await returns the first line that contains a text.
func await(t *testing.T, shown *bufio.Scanner, text string) string {
	t.Helper()
	for shown.Scan() {
		if strings.Contains(shown.Text(), text) {
			return shown.Text()
		}
	}
	t.Fatalf("nothing has %q: %v", text, shown.Err())
	return ""
}

func TestStatus_terminal(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	f.snapshot.Set(awaits())
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "GATE     \x1b[32mready\x1b[0m for 5h0m"},
		{map[string]string{"NO_COLOR": "1"}, "GATE     ready for 5h0m"},
		{map[string]string{"TERM": "dumb"}, "GATE     ready for 5h0m"},
	} {
		shown := onTerminal(t, program{}, test.env, "status", "--server", f.URL)
		if got := await(t, shown, "GATE  "); !strings.HasPrefix(got, test.want) {
			t.Errorf("%v: got %q", test.env, got)
		}
		if got := await(t, shown, "OBJECTS  "); len(got) > 81 || !strings.HasSuffix(strings.TrimSpace(got), "3 to prune") {
			t.Errorf("%v: got %q", test.env, got)
		}
	}
}

// The ages move, though nothing changes, and lines below the end of the terminal are left out.
func TestStatusWatch_terminal(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	f.snapshot.Set(awaits())
	drawn := noon
	p := program{Program: console.Program{Now: func() time.Time { drawn = drawn.Add(time.Hour); return drawn }}}
	shown := onTerminal(t, p, map[string]string{"NO_COLOR": "1"}, "status", "-w", "--server", f.URL)
	for _, want := range []string{"ready for 6h0m", "ready for 7h0m", "ready for 8h0m"} {
		if got := await(t, shown, "GATE  "); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		await(t, shown, "more lines")
	}
}

// On a terminal of each width, no line of a help is longer than that, unless it is a single word.
func TestHelp_width(t *testing.T) {
	var helps [][]string
	everyCommand(program{}.root(), func(cmd *cobra.Command) {
		helps = append(helps, append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	})
	for _, about := range topics() {
		helps = append(helps, []string{"help", about.name})
	}
	for _, width := range []uint16{60, 66, 80, 120} {
		seen, stdout := newTerminal(t, width, 24)
		p := program{Program: console.Program{Stdout: stdout, Stderr: stdout, LookupEnv: func(string) (string, bool) { return "", false }}}
		shown, lines := bufio.NewScanner(seen), 0
		for _, args := range helps {
			go func() { p.main(t.Context(), args); fmt.Fprintln(stdout, "END") }()
			for shown.Scan() && shown.Text() != "END" {
				lines++
				if n := utf8.RuneCountInString(shown.Text()); n > int(width) && len(strings.Fields(shown.Text())) > 1 {
					t.Errorf("%v: a line of %d columns, on a terminal of %d: %s", args, n, width, shown.Text())
				}
			}
		}
		if lines < 1000 {
			t.Errorf("%d columns: got %d lines", width, lines)
		}
	}
}
