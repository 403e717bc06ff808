package role

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDrawing holds the drawing in the package comment to NewServer, which wires the
// workers: who reads which value.
func TestDrawing(t *testing.T) {
	if diff := cmp.Diff(wired(t), drawn(t)); diff != "" {
		t.Errorf("the drawing in doc.go is not what NewServer wires (-wired +drawn):\n%s", diff)
	}
}

// drawn returns the readers of each value in the drawing, in alphabetical order.
func drawn(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\t(\S+)\s+-> (.*)$`).FindAllStringSubmatch(parse(t, "doc.go").Doc.Text(), -1) {
		out[row[1]] = slices.Sorted(strings.SplitSeq(row[2], ", "))
	}
	return out
}

// wired returns the same of NewServer.
func wired(t *testing.T) map[string][]string {
	t.Helper()
	readers := map[string]map[string]bool{}
	add := func(reader string, value ast.Expr) {
		if name := valueName(value); name != "" {
			if readers[name] == nil {
				readers[name] = map[string]bool{}
			}
			readers[name][reader] = true
		}
	}
	ast.Inspect(function(t, parse(t, "server.go"), "NewServer"), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if name, is := strings.CutSuffix(dotted(n.Type), "Config"); is {
				for _, field := range n.Elts {
					add(name, field.(*ast.KeyValueExpr).Value)
				}
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if path := strings.Split(dotted(to), "."); len(path) == 3 && path[0] == "cfg" {
					add(path[1], n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			if dotted(n.Fun) == "newFollower" {
				for _, argument := range n.Args {
					add("follower", argument)
				}
			}
		}
		return true
	})
	out := map[string][]string{}
	for value, all := range readers {
		out[value] = slices.Sorted(maps.Keys(all))
	}
	return out
}

// valueName is that of a value that a worker gets; empty: it is none.
func valueName(e ast.Expr) string {
	text := dotted(e)
	if call, is := e.(*ast.CallExpr); is {
		if text = dotted(call.Fun); text == "held" {
			text = dotted(call.Args[0])
		}
	}
	path := strings.Split(text, ".")
	switch {
	case len(path) == 3 && path[0] == "s":
		return strings.ToUpper(path[1][:1]) + path[1][1:] + "." + path[2]
	case text == "s.loaded", text == "s.disk":
		return "Server." + path[1]
	case len(path) == 2 && path[0] == "cfg" && slices.Contains([]string{"Variables", "Displayed", "Leads"}, path[1]):
		return "ServerConfig." + path[1]
	case text == "cfg.Registrar.Presence":
		return "RegistrarConfig." + path[2]
	}
	return ""
}

// dotted returns a.b.c for such an expression; empty for others.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return dotted(e.X) + "." + e.Sel.Name
	}
	return ""
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func function(t *testing.T, file *ast.File, name string) ast.Node {
	t.Helper()
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Name.Name == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return nil
}
