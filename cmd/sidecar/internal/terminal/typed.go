package terminal

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
func (s Screen) commandEnd(words []Word, i int) int {
	switch first := strings.TrimLeft(words[i].Text, "(`"); {
	case first == "sidecar" && s.Commands != nil:
		if r := ReadCommand(s.Commands, words[i+1:]); len(r.Args) > 0 {
			return pipedEnd(words, i+1+r.read)
		}
	case i > 0 && endsCommand(words[i-1].Text) && slices.Contains([]string{"etcdctl", "kubectl", "systemctl"}, first):
		return i + foreignEnd(words[i:])
	}
	return i
}

// foreignEnd returns the length of a command of another program.
func foreignEnd(words []Word) int {
	for n, w := range words {
		if strings.ContainsAny(w.Text[len(w.Text)-1:], ";,)`") {
			return n + 1
		}
	}
	return len(words)
}

// pipedEnd returns the index after the command that takes the output of the one that ends at end.
func pipedEnd(words []Word, end int) int {
	if end >= len(words) || words[end].Text != "|" {
		return end
	}
	return end + foreignEnd(words[end:])
}

// Command reads the words behind "sidecar" as a shell does, up to the end of the
// command in the sentence.
type Command struct {
	words []Word
	read  int      // of words
	Args  []string // of the program
	ended bool
}

// ReadCommand returns the command that the words contain. Its args are empty if the words are a sentence about a
// sidecar.
func ReadCommand(root *cobra.Command, words []Word) Command {
	r := Command{words: words}
	cmd := root
	for next := ChildOf(cmd, r.Peek()); next != nil; next = ChildOf(cmd, r.Peek()) {
		cmd = next
		r.take()
	}
	if cmd.HasSubCommands() && !r.beforeOther() {
		return Command{}
	}
	places := len(argument.FindAllString(cmd.Use, -1))
	for r.Peek() != "" {
		name, isFlag := strings.CutPrefix(r.Peek(), "-")
		name, _, hasValue := strings.Cut(name, "=")
		f := flagNamed(cmd, name)
		switch {
		case r.Peek() == "--" && cmd.HasSubCommands(): // what follows is another command
		case r.Peek() == "#", isFlag && f == nil, !isFlag && places == 0: // the first begins a comment
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
func (r Command) beforeOther() bool {
	for _, w := range r.words[r.read:] {
		switch {
		case w.Text == "--":
			return true
		case !strings.HasPrefix(w.Text, "-"):
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

// ChildOf returns the command below cmd that has a name; nil: there is none.
func ChildOf(cmd *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return cmd.Commands()[i]
}

// Peek returns the next word of the command; empty: it ended.
func (r *Command) Peek() string {
	if r.ended || r.read == len(r.words) {
		return ""
	}
	return strings.TrimRight(r.words[r.read].Text, closing)
}

// take adds the next word, and the ones behind it in the same quotes.
func (r *Command) take() {
	text := ""
	for r.Peek() != "" {
		w := r.words[r.read]
		if text != "" {
			text += strings.Repeat(" ", w.spaces)
		}
		text += w.Text
		r.read++
		if strings.Count(text, `'`)%2 == 0 && strings.Count(text, `"`)%2 == 0 {
			r.ended = endsCommand(text)
			break
		}
	}
	r.Args = append(r.Args, strings.NewReplacer(`'`, "", `"`, "").Replace(strings.TrimRight(text, closing)))
}
