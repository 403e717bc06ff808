package role

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// TestEachWorkerIsTestedAlone requires a test for each worker of the package: for each type
// that runs until a context ends. The test is named after the worker, uses a fake clock, and
// runs this worker and no other one.
func TestEachWorkerIsTestedAlone(t *testing.T) {
	s := readSource(t)
	var workers []string
	for _, f := range s.functions(false) {
		if of := receiver(f); of != "" && strings.EqualFold(f.Name.Name, "run") {
			workers = append(workers, of)
		}
	}
	if len(workers) < 5 {
		t.Errorf("found the workers %v only", workers)
	}
	bodies := map[types.Object]*ast.FuncDecl{}
	for _, f := range s.functions(true) {
		bodies[s.info.Defs[f.Name]] = f
	}
	for _, w := range workers {
		alone := slices.ContainsFunc(s.functions(true), func(f *ast.FuncDecl) bool {
			return isNamedAfter(f, w) && usesFakeClock(f) && slices.Equal(s.runs(f, bodies), []string{w})
		})
		if !alone {
			t.Errorf("no test Test%s with synctest runs the worker %s, and no other one", w, w)
		}
	}
}

func isNamedAfter(f *ast.FuncDecl, name string) bool {
	test, is := strings.CutPrefix(f.Name.Name, "Test")
	subject, _, _ := strings.Cut(test, "_")
	return is && strings.EqualFold(subject, name)
}

func usesFakeClock(f *ast.FuncDecl) (uses bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && dotted(call.Fun) == "synctest.Test" {
			uses = true
		}
		return !uses
	})
	return uses
}

// runs returns the workers that a test runs, by itself or in the functions of the tests that it
// calls.
func (s *sourceText) runs(test *ast.FuncDecl, bodies map[types.Object]*ast.FuncDecl) []string {
	var out []string
	seen := map[types.Object]bool{}
	var follow func(*ast.FuncDecl)
	follow = func(f *ast.FuncDecl) {
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is {
				if of, method := s.method(sel); method != nil && strings.EqualFold(method.Name(), "run") && bodies[method] == nil {
					out = append(out, of)
				}
			}
			return true
		})
		for called := range s.calls(f.Body) {
			if body := bodies[called]; body != nil && !seen[called] {
				seen[called] = true
				follow(body)
			}
		}
	}
	follow(test)
	slices.Sort(out)
	return slices.Compact(out)
}
