package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// printed is a command of this program in a text for people.
type printed struct {
	args []string
	rest string // a word after it that it does not understand
}

// printedIn returns the commands in a text.
func printedIn(root *cobra.Command, text string) (out []printed) {
	words := terminal.Screen{}.Words(strings.NewReplacer("\n", " ; ", "\\\n", "").Replace(text))
	for i, w := range words {
		if strings.TrimLeft(w.Text, "(`\"'") != "sidecar" && !strings.HasSuffix(w.Text, "/sidecar") {
			continue
		}
		if r := terminal.ReadCommand(root, words[i+1:]); len(r.Args) > 0 {
			out = append(out, printed{r.Args, r.Peek()})
		}
	}
	return out
}

// wrong returns why a person cannot type a printed command.
func (c printed) wrong() error {
	if strings.HasPrefix(c.rest, "-") && c.rest != "-" && c.rest != "--" {
		return fmt.Errorf("sidecar %s has no flag %s", strings.Join(c.args, " "), c.rest)
	}
	return parses(c.args)
}

// checkPrinted requires of each command that the program prints, in any test, that a person can type it.
func checkPrinted(t *testing.T, args []string, output string) {
	t.Helper()
	for _, problem := range printedProblems(args, output) {
		t.Error(problem)
	}
}

// printedProblems names the commands in the output of a command that cannot be typed. Help has places for
// arguments, and is tested by TestExamplesParse.
func printedProblems(args []string, output string) (out []string) {
	if slices.Contains(args, "help") || slices.Contains(args, "--help") || strings.Contains(output, "Usage:\n") {
		return nil
	}
	for _, c := range printedIn(program{}.root(), output) {
		if err := c.wrong(); err != nil && strings.TrimRight(c.rest, `"`) != "--help" {
			out = append(out, fmt.Sprintf("sidecar %s prints sidecar %s: %v", strings.Join(args, " "), strings.Join(c.args, " "), err))
		}
	}
	return out
}

// needsEtcd reports whether a command needs the flags that lead to etcd, and is without.
func (c printed) needsEtcd(root *cobra.Command) bool {
	cmd := commandAt(root, c.args)
	return cmd.Flags().Lookup("etcd-servers") != nil && cmd.Name() != "run" &&
		!slices.ContainsFunc(c.args, func(a string) bool {
			return strings.HasPrefix(a, "--etcd-servers") || strings.HasPrefix(a, "--data-dir")
		})
}

// TestPrintedCommands parses each command that /status, and the table of it, shows in a
// broken situation. It can be pasted: it exists, accepts the flags that it is printed with,
// and contains the flags that lead to the etcd of this node.
func TestPrintedCommands(t *testing.T) {
	captures, err := filepath.Glob("testdata/situations/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	root, found := program{}.root(), 0
	for _, path := range captures {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var status any
		if err := json.Unmarshal(raw, &status); err != nil {
			t.Fatal(err)
		}
		texts := append(textsOf(status), strings.Split(capturedTable(t, strings.TrimSuffix(path, ".json")), "\n")...)
		for _, text := range texts {
			for _, c := range printedIn(root, text) {
				found++
				if err := c.wrong(); err != nil {
					t.Errorf("%s: %v, in %s", path, err, text)
				}
				if c.needsEtcd(root) {
					t.Errorf("%s: without the flags that lead to etcd: sidecar %s, in %s", path, strings.Join(c.args, " "), text)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("got %d commands", found)
	}
}

// textsOf returns all texts in a value of JSON.
func textsOf(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			out = append(out, textsOf(item)...)
		}
	case map[string]any:
		for _, item := range v {
			out = append(out, textsOf(item)...)
		}
	}
	return out
}

// TestNamedCommands looks for commands in all texts of the program, and on all pages: they
// exist, with the flags that they are named with.
func TestNamedCommands(t *testing.T) {
	root, found := program{}.root(), 0
	check := func(path, text string) {
		for _, c := range printedIn(root, text) {
			found++
			if strings.HasPrefix(c.rest, "--") && c.rest != "--" && c.rest != "--help" && !strings.Contains(c.rest, "%") {
				t.Errorf("%s: sidecar %s has no flag %s", path, strings.Join(c.args, " "), c.rest)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "patches"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go"):
			return eachText(path, func(text string) { check(path, text) })
		case strings.HasSuffix(path, ".md") && d.Name() != "CHANGELOG.md":
			text, err := os.ReadFile(path)
			check(path, string(text))
			return err
		}
		return nil
	})
	if err != nil || found < 200 {
		t.Errorf("got %d commands, %v", found, err)
	}
}

// eachText calls visit with each string literal of a Go file.
func eachText(path string, visit func(string)) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err == nil {
				visit(text)
			}
		}
		return true
	})
	return nil
}
