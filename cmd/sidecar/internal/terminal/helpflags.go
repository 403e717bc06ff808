package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// flagNames is the column of the names in a list of flags: "  -o, --output file".
const flagNames = len("  -o, ")

// HelpIndent indents the lines below a heading.
const HelpIndent = "  "

// PrintFlags prints flags with their texts beside them, or below them where that is too narrow.
func (s Screen) PrintFlags(w io.Writer, flags *pflag.FlagSet) {
	var names, texts []string
	longest := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		line := strings.TrimSuffix(one.FlagUsages(), "\n")
		name, text, _ := strings.Cut(line[flagNames:], Gap)
		names, texts = append(names, line[:flagNames]+name), append(texts, strings.TrimSpace(text))
		longest = max(longest, flagNames+utf8.RuneCountInString(name))
	})
	at := longest + len(Gap) + 1
	beside := s.Width-at >= minText
	if !beside {
		at = flagNames + len(HelpIndent)
	}
	for i, name := range names {
		lines := s.Wrap(texts[i], s.Width-at)
		if beside {
			fmt.Fprintf(w, "%-*s%s\n", at, name, lines[0])
			lines = lines[1:]
		} else {
			fmt.Fprintln(w, strings.Join(s.Wrap(name, s.Width), "\n"+strings.Repeat(" ", at)))
		}
		for _, line := range lines {
			fmt.Fprintln(w, strings.Repeat(" ", at)+line)
		}
	}
}

// indented wraps a line that begins with a space: a command, a comment above one, or a row of a table.
func (s Screen) indented(line string) []string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	if s.Width <= 0 || utf8.RuneCountInString(line) <= s.Width {
		return []string{line}
	}
	if comment, found := strings.CutPrefix(text, "# "); found {
		return hanging(indent+"# ", indent+"# ", s.Wrap(comment, s.Width-len(indent)-len("# ")))
	}
	if name, rest, found := strings.Cut(text, Gap); found {
		trimmed := strings.TrimLeft(rest, " ")
		before := line[:len(indent)+len(name)+len(Gap)+len(rest)-len(trimmed)]
		at, lines := utf8.RuneCountInString(before), s.Wrap
		if strings.HasPrefix(trimmed, "sidecar ") {
			lines = s.commandLines
		}
		return hanging(before, strings.Repeat(" ", at), lines(trimmed, s.Width-at))
	}
	return hanging(indent, indent+HelpIndent, s.commandLines(text, s.Width-len(indent)-len(HelpIndent)))
}

// hanging puts first before the first line, and others before the others.
func hanging(first, others string, lines []string) []string {
	before := first
	for i, line := range lines {
		lines[i] = before + line
		before = others
	}
	return lines
}

// commandLines breaks a command that is longer than width as a shell wants it, outside of quotes.
func (s Screen) commandLines(text string, width int) (out []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		quoted := strings.Count(line, `"`)%2 == 1 || strings.Count(line, `'`)%2 == 1
		if line != "" && !quoted && len(line)+1+len(word)+len(Continued) > width && word != strings.TrimSpace(Continued) {
			if !strings.HasSuffix(line, "|") { // a shell reads on behind it
				line += Continued
			}
			out, line = append(out, line), word
			continue
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(out, line)
}
