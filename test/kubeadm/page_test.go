package kubeadm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/balancers"
)

// page contains the commands that the tests type.
const page = "../../docs/kubeadm.md"

// pageLines returns the commands of the page, each on one line and without its comment.
func pageLines(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	continued := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case is:
			out = append(out, command)
		case continued:
			out[len(out)-1] += line
		default:
			continue
		}
		last := &out[len(out)-1]
		*last, continued = strings.CutSuffix(*last, `\`)
		*last, _, _ = strings.Cut(*last, "  # ")
		*last = strings.TrimRight(*last, " ") + map[bool]string{true: " "}[continued]
	}
	return out
}

// findLine returns the line that is a text, or else the only one that begins with it.
func findLine(lines []string, begin string) (string, error) {
	if slices.Contains(lines, begin) {
		return begin, nil
	}
	var found []string
	for _, line := range lines {
		if strings.HasPrefix(line, begin) && !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: got the lines %q that begin with %q, want one", page, found, begin)
	}
	return found[0], nil
}

// typedLine returns the line of the page that begins with a text, with replacements: pairs of
// a text of the page and the text to type in its place. TestPage knows which lines are taken here.
func typedLine(t testing.TB, begin string, replacements ...string) string {
	t.Helper()
	line, err := findLine(pageLines(t), begin)
	if err != nil {
		t.Fatal(err)
	}
	return replaced(t, line, replacements...)
}

func replaced(t testing.TB, text string, replacements ...string) string {
	t.Helper()
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("%s: %q does not contain %q", page, text, replacements[i])
		}
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// pageConfig returns the document of a kind in the page's file for kubeadm, with replacements.
// It ends with a line feed.
func pageConfig(t testing.TB, kind string, replacements ...string) string {
	t.Helper()
	block, err := balancers.Block(page, "yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(block, "---\n") {
		if strings.Contains(document, "\nkind: "+kind) {
			return replaced(t, document, replacements...)
		}
	}
	t.Fatalf("%s has no %s", page, kind)
	return ""
}

// Type types a line of the page on the node.
func (n *Node) Type(begin string, replacements ...string) string {
	n.t.Helper()
	return n.Shell(typedLine(n.t, begin, replacements...))
}

// TypeWithEnv types a line after the one that reads the variables for commands of sidecar.
func (n *Node) TypeWithEnv(begin string, replacements ...string) string {
	n.t.Helper()
	return n.Shell(typedLine(n.t, ". /etc/lockstep/env") + "; " + typedLine(n.t, begin, replacements...))
}

// AwaitTyped types a line like TypeWithEnv until it succeeds.
func (n *Node) AwaitTyped(begin string, replacements ...string) {
	n.t.Helper()
	line := typedLine(n.t, ". /etc/lockstep/env") + "; " + typedLine(n.t, begin, replacements...)
	n.Await(line, func() error {
		_, err := n.Try("bash", "-euc", line)
		return err
	})
}

// typedElsewhere are the lines that tests of other packages type, with these tests.
var typedElsewhere = map[string]string{
	"etcdctl role add":              "../e2e.TestEtcdUser",
	"etcdctl role grant-permission": "../e2e.TestEtcdUser",
	"etcdctl user add":              "../e2e.TestEtcdUser",
	"etcdctl user grant-role":       "../e2e.TestEtcdUser",
	"sidecar rollback begin":        "../e2e.TestSituations",
}

// TestPage requires that a test types each line of the page: one here takes it by its text, or
// typedElsewhere names one.
func TestPage(t *testing.T) {
	lines := pageLines(t)
	taken := map[string]bool{}
	for _, begin := range takenLines(t) {
		line, err := findLine(lines, begin)
		if err != nil {
			t.Error(err)
		}
		taken[line] = true
	}
	for begin, test := range typedElsewhere {
		line, err := findLine(lines, begin)
		if err != nil {
			t.Error(err)
		}
		if taken[line] {
			t.Errorf("%s: a test here takes %q; remove it from typedElsewhere", page, line)
		}
		taken[line] = true
		dir, name, _ := strings.Cut(test, ".Test")
		if !hasTest(t, dir, "Test"+name) {
			t.Errorf("there is no test %s", test)
		}
	}
	for _, line := range lines {
		if !taken[line] {
			t.Errorf("%s: no test types %q", page, line)
		}
	}
}

// takenLines returns the texts by which the functions of this package take lines of the page.
func takenLines(t *testing.T) []string {
	t.Helper()
	takers := map[string]int{"typedLine": 1, "Type": 0, "TypeWithEnv": 0, "AwaitTyped": 0} // the argument that is the text
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if !is {
				return true
			}
			var name string
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				name = fun.Name
			case *ast.SelectorExpr:
				name = fun.Sel.Name
			}
			i, is := takers[name]
			if !is || len(call.Args) <= i {
				return true
			}
			if literal, is := call.Args[i].(*ast.BasicLit); is {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
			return true
		})
	}
	return out
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(sources, func(source string) bool {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+name+"(")
	})
}
