package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every patch applies to the code as it is now, changes production code only, and
// names tests that exist. That some test fails with it is for `make mutants`.
func TestPatches(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("got %d mutants, want 30 and more", len(all))
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			if err := m.apply(t.Context(), root, dir); err != nil {
				t.Fatal(err)
			}
			for _, file := range m.Files {
				if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
					t.Errorf("%s is not production code", file)
				}
				if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, 0); err != nil {
					t.Errorf("with the patch: %v", err)
				}
			}
			for _, want := range m.Tests {
				if !slices.Contains(testsOf(t, filepath.Join(root, want.Package)), want.Test) {
					t.Errorf("%s has no %s", want.Package, want.Test)
				}
			}
		})
	}
}

// testsOf returns the names of the tests in a directory.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, isFunc := decl.(*ast.FuncDecl); isFunc && f.Recv == nil {
				out = append(out, f.Name.Name)
			}
		}
	}
	return out
}

func TestParse(t *testing.T) {
	m, err := parse("Breaks: x\nTest: ./p TestA\nTest: ./q TestB\n--- a/p/p.go\n+++ b/p/p.go\n@@ -1 +1 @@\n-a\n+b\n")
	if err != nil || m.Breaks != "x" || len(m.Tests) != 2 || m.Tests[1] != (target{"./q", "TestB"}) || !slices.Equal(m.Files, []string{"p/p.go"}) {
		t.Errorf("got %+v, %v", m, err)
	}
	for name, text := range map[string]string{
		"no patch":        "Breaks: x\nTest: ./p TestA\n",
		"no test":         "Breaks: x\n--- a/p/p.go\n+++ b/p/p.go\n",
		"no file":         "Breaks: x\nTest: ./p TestA\n--- a/p/p.go\n",
		"no package":      "Breaks: x\nTest: TestA\n--- a/p/p.go\n+++ b/p/p.go\n",
		"an unknown line": "Breaks: x\nTests: ./p TestA\n--- a/p/p.go\n+++ b/p/p.go\n",
	} {
		if m, err := parse(text); err == nil {
			t.Errorf("%s: got %+v and no error", name, m)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name, output string
		failed       bool
		want         outcome
	}{
		{"a test fails", "=== RUN   TestA\n--- FAIL: TestA\n", true, killed},
		{"a test hangs", "=== RUN   TestA\npanic: test timed out after 3m0s\n", true, killed},
		{"all pass", "=== RUN   TestA\n--- PASS: TestA\nok p\n", false, survived},
		{"it does not compile", "p/p.go:1: undefined: x\nFAIL p [build failed]\n", true, invalid},
		{"there is no such test", "testing: warning: no tests to run\nok p\n", false, invalid},
		{"a binary is missing", "=== RUN   TestA\n    SKIPPED, NOT TESTED\n--- SKIP: TestA\nok p\n", false, invalid},
	} {
		if got := judge(tt.output, tt.failed); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A patch that does not apply any more is an error.
func TestApply_outdated(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte("package p\n\nvar b = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mutant{Patch: "--- a/p.go\n+++ b/p.go\n@@ -1,3 +1,3 @@\n package p\n \n-var a = 1\n+var a = 2\n", Files: []string{"p.go"}}
	if err := m.apply(t.Context(), root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "does not apply any more") {
		t.Errorf("got %v", err)
	}
}
