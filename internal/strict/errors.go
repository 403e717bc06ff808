package strict

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// Problem is one fault in a file, and its place.
type Problem struct {
	File     string `json:"file"`     // as the user would write it; empty: the whole directory
	Line     int    `json:"line"`     // from 1; 0: the whole file
	Document int    `json:"document"` // from 1, within the file; 0: the whole file
	Message  string `json:"message"`  // the fault and its remedy
}

// Error reads "file:line: message (document 2)".
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Document > 1 {
		fmt.Fprintf(&b, " (document %d)", p.Document)
	}
	return b.String()
}

// LoadError contains all problems of a directory, sorted by file and line. Of more than a
// hundred it contains the first hundred, and a last one with the number of the others.
// errors.As also finds a single *Problem in it.
type LoadError struct {
	Problems []*Problem // never empty
}

// Error returns one line for each problem.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the problems to errors.As.
func (e *LoadError) Unwrap() []error {
	out := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		out[i] = p
	}
	return out
}

// Limits on a LoadError: a small file can contain a million faults, and names of any length.
const (
	MaxProblems = 100
	MaxMessage  = 1 << 10
)

// Problems collects problems while a directory is read. The zero value contains none.
type Problems struct {
	list  []*Problem // the first MaxProblems
	count int        // of all
}

// Add adds a problem. Its message is the format with args.
func (p *Problems) Add(at Place, format string, args ...any) {
	p.count++
	if len(p.list) == MaxProblems {
		return
	}
	message := fmt.Sprintf(format, args...)
	if len(message) > MaxMessage {
		message = strings.ToValidUTF8(message[:MaxMessage], "") + "…"
	}
	p.list = append(p.list, &Problem{File: at.File, Line: at.Line, Document: at.Document, Message: message})
}

// Count is the number of problems so far.
func (p *Problems) Count() int { return p.count }

// Err returns nil or a *LoadError, sorted by place.
func (p *Problems) Err() error {
	if len(p.list) == 0 {
		return nil
	}
	sorting.By(p.list, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if more := p.count - len(p.list); more > 0 {
		p.list = append(p.list, &Problem{Message: fmt.Sprintf("and %d more problems, which are shown when these are solved", more)})
	}
	return &LoadError{Problems: p.list}
}

// Place is where a value is in a file.
type Place struct {
	File     string // as the user would write it
	Line     int    // from 1; 0: the whole file
	Document int    // from 1, within the file; 0: the whole file
}

// At returns a line of the same document.
func (p Place) At(line int) Place { p.Line = line; return p }

// String reads "file:line".
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
