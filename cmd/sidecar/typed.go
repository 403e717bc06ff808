package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// closing are the characters that follow a command in a sentence.
const closing = ";,):.`"

// endsCommand reports whether a sentence ends a command behind this word.
func endsCommand(text string) bool { return strings.ContainsAny(text[len(text)-1:], closing) }

// commandEnd returns the index after the command that begins with words[i]; i: none does.
func (s screen) commandEnd(words []textWord, i int) int {
	switch first := strings.TrimLeft(words[i].text, "(`"); {
	case first == "sidecar" && s.commands != nil:
		if r := readCommand(s.commands, words[i+1:]); len(r.args) > 0 {
			return i + 1 + r.read
		}
	case i > 0 && endsCommand(words[i-1].text) && slices.Contains([]string{"etcdctl", "kubectl", "systemctl"}, first):
		for n, w := range words[i:] {
			if strings.ContainsAny(w.text[len(w.text)-1:], ";,)`") {
				return i + n + 1
			}
		}
		return len(words)
	}
	return i
}

// commandReader reads the words behind "sidecar" as a shell does, up to the end of the
// command in the sentence.
type commandReader struct {
	words []textWord
	read  int      // of words
	args  []string // of the program
	ended bool
}

// readCommand returns the command that the words contain. Its args are empty if the words are a sentence about a
// sidecar.
func readCommand(root *cobra.Command, words []textWord) commandReader {
	r := commandReader{words: words}
	cmd := root
	for next := childOf(cmd, r.peek()); next != nil; next = childOf(cmd, r.peek()) {
		cmd = next
		r.take()
	}
	if cmd.HasSubCommands() && !r.beforeOther() {
		return commandReader{}
	}
	places := len(argument.FindAllString(cmd.Use, -1))
	for r.peek() != "" {
		name, isFlag := strings.CutPrefix(r.peek(), "-")
		name, _, hasValue := strings.Cut(name, "=")
		f := flagNamed(cmd, name)
		switch {
		case r.peek() == "--" && cmd.HasSubCommands(): // what follows is another command
		case r.peek() == "#", isFlag && f == nil, !isFlag && places == 0: // the first begins a comment
			return r
		case !isFlag:
			places--
		case !hasValue && f.NoOptDefVal == "":
			r.take()
		}
		r.take()
	}
	return r
}

// beforeOther reports whether flags, and then another command, follow: sidecar turn -- COMMAND.
func (r commandReader) beforeOther() bool {
	for _, w := range r.words[r.read:] {
		switch {
		case w.text == "--":
			return true
		case !strings.HasPrefix(w.text, "-"):
			return false
		}
	}
	return false
}

// flagNamed returns the flag -name or --name; nil: there is none.
func flagNamed(cmd *cobra.Command, name string) *pflag.Flag {
	if long, isLong := strings.CutPrefix(name, "-"); isLong {
		return cmd.Flags().Lookup(long)
	}
	if len(name) != 1 {
		return nil
	}
	return cmd.Flags().ShorthandLookup(name)
}

// argument is the place of an argument in Use. Flags there take a place too.
var argument = regexp.MustCompile(`(?:^| )\[?[A-Z]+`)

func childOf(cmd *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return cmd.Commands()[i]
}

// peek returns the next word of the command; empty: it ended.
func (r *commandReader) peek() string {
	if r.ended || r.read == len(r.words) {
		return ""
	}
	return strings.TrimRight(r.words[r.read].text, closing)
}

// take adds the next word, and the ones behind it in the same quotes.
func (r *commandReader) take() {
	text := ""
	for r.peek() != "" {
		w := r.words[r.read]
		if text != "" {
			text += strings.Repeat(" ", w.spaces)
		}
		text += w.text
		r.read++
		if strings.Count(text, `'`)%2 == 0 && strings.Count(text, `"`)%2 == 0 {
			r.ended = endsCommand(text)
			break
		}
	}
	r.args = append(r.args, strings.NewReplacer(`'`, "", `"`, "").Replace(strings.TrimRight(text, closing)))
}
