package role

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachWorkerIsTestedAlone requires a test with fake inputs and a fake clock for each
// worker of the package: for each type that runs until a context ends.
func TestEachWorkerIsTestedAlone(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var workers []string
	tested := map[string]bool{}
	for _, name := range files {
		for _, d := range parse(t, name).Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			if test, is := strings.CutPrefix(f.Name.Name, "Test"); is && usesFakeClock(f) {
				subject, _, _ := strings.Cut(test, "_")
				tested[strings.ToLower(subject)] = true
			}
			if f.Recv != nil && strings.EqualFold(f.Name.Name, "run") && !strings.HasSuffix(name, "_test.go") {
				workers = append(workers, dotted(f.Recv.List[0].Type.(*ast.StarExpr).X))
			}
		}
	}
	if len(workers) < 6 {
		t.Errorf("found the workers %v only", workers)
	}
	for _, w := range workers {
		if !tested[strings.ToLower(w)] {
			t.Errorf("no test Test%s with synctest runs the worker %s alone", w, w)
		}
	}
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
