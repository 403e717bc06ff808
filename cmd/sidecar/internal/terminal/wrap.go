package terminal

import (
	"strings"
	"unicode/utf8"
)

// Word is a part of a text at whose beginning a line may begin.
type Word struct {
	Text   string
	spaces int // before it
	// of a command that people type: its first word, and the others
	starts, continues bool
}

func (w Word) width() int { return utf8.RuneCountInString(w.Text) }

// Continued ends a line whose command continues in the next one, as in a shell.
const Continued = ` \`

// Words splits a text. The words of commands are marked.
func (s Screen) Words(text string) []Word {
	var out []Word
	spaces := 0
	for part := range strings.SplitSeq(text, " ") {
		if part == "" {
			spaces++
			continue
		}
		out = append(out, Word{Text: part, spaces: spaces})
		spaces = 1
	}
	for i := 0; i < len(out); i++ {
		end := s.commandEnd(out, i)
		for j := i; j < end; j++ {
			out[j].starts, out[j].continues = j == i, j > i
		}
		i = max(i, end-1)
	}
	return out
}

// Wrap breaks a text into lines of at most width columns; 0: no limit. A command that does
// not fit into a line is broken as a shell wants it, and never within a word.
func (s Screen) Wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	words := s.Words(text)
	l := lineFiller{width: width}
	for i, w := range words {
		room := w.width()
		if w.starts {
			room = max(room, min(commandWidth(words[i:]), width))
		}
		if goesOn(words, i) {
			room = max(room, w.width()+len(Continued))
		}
		l.add(w, room)
	}
	return l.all
}

// goesOn reports whether the word after i belongs to the same command.
func goesOn(words []Word, i int) bool { return i+1 < len(words) && words[i+1].continues }

// commandWidth is the width of the command with which words begin.
func commandWidth(words []Word) int {
	n := words[0].width()
	for _, w := range words[1:] {
		if !w.continues {
			break
		}
		n += w.spaces + w.width()
	}
	return n
}

// lineFiller fills one line after another.
type lineFiller struct {
	width int
	all   []string
}

// add adds a word to the last line if it fits there, otherwise to the next one.
func (l *lineFiller) add(w Word, room int) {
	if n := len(l.all); n > 0 {
		last := utf8.RuneCountInString(l.all[n-1])
		if last+w.spaces+room <= l.width {
			l.all[n-1] += strings.Repeat(" ", w.spaces) + w.Text
			return
		}
		if w.continues {
			l.all[n-1] += Continued
		}
	}
	text := []rune(w.Text)
	if len(l.all) == 0 {
		text = []rune(strings.Repeat(" ", w.spaces) + w.Text)
	}
	for !w.starts && !w.continues && len(text) > l.width { // an address, for example
		end := l.width
		if comma := strings.LastIndex(string(text[:end]), ","); comma > 0 { // a list, of roles for example
			end = utf8.RuneCountInString(string(text[:end])[:comma+1])
		}
		l.all = append(l.all, string(text[:end]))
		text = text[end:]
	}
	l.all = append(l.all, string(text))
}

// Paragraphs wraps a text of paragraphs, between which is an empty line. Lines that begin
// with a space are lines of their own.
func (s Screen) Paragraphs(text string) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, s.Wrap(strings.Join(paragraph, " "), s.Width)...)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		out = append(out, s.indented(line)...)
	}
	flush()
	return strings.Join(out, "\n")
}
