package repotest

import (
	"go/ast"
	"regexp"
	"testing"
)

// What fits on a screen, and in a head. A file of tests may be longer: it is read
// one test at a time.
const (
	maxFunc     = 60
	maxTestFunc = 100
	maxFile     = 400
)

// longForAReason is in the comment of a test that is longer, with the reason.
var longForAReason = regexp.MustCompile(`\b[Ll]ong\b`)

func TestFunctionsAndFilesAreSmall(t *testing.T) {
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		if lines := s.line(s.file.FileEnd); !s.test && lines > maxFile {
			t.Errorf("%s has %d lines; at most %d", s.path, lines, maxFile)
		}
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				wantSmall(t, s, fn)
			}
		}
	}
}

func wantSmall(t *testing.T, s source, fn *ast.FuncDecl) {
	t.Helper()
	first, lines := s.line(fn.Pos()), s.line(fn.End())-s.line(fn.Pos())+1
	switch {
	case !s.test && lines > maxFunc:
		t.Errorf("%s:%d: %s has %d lines; at most %d", s.path, first, fn.Name.Name, lines, maxFunc)
	case s.test && lines > maxTestFunc && !longForAReason.MatchString(fn.Doc.Text()):
		t.Errorf("%s:%d: %s has %d lines; split it into subtests and helpers, or say in its comment why it is long (at most %d)",
			s.path, first, fn.Name.Name, lines, maxTestFunc)
	}
}
