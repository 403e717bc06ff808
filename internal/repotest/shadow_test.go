package repotest

import (
	"go/ast"
	"go/token"
	"testing"
)

// TestNoLocalShadowsAPackageLevelName: one name is one thing in a package. A
// reader who meets it in a function must not have to ask which one is meant.
func TestNoLocalShadowsAPackageLevelName(t *testing.T) {
	shipped, tested := packageNames(sources(t))
	for _, s := range sources(t) {
		// Tests see the names of all files, and other files those that ship.
		names := shipped[s.dir+" "+s.pkg]
		if s.test {
			names = tested[s.dir+" "+s.pkg]
		}
		locals(s.file, func(id *ast.Ident) {
			if names[id.Name] {
				t.Errorf("%s:%d: %s is a name of the package: call the local something else", s.path, s.line(id.Pos()), id.Name)
			}
		})
	}
}

// packageNames returns the package-level names by directory and package: those
// in files that ship, and those in tests as well.
func packageNames(all []source) (shipped, tested map[string]map[string]bool) {
	shipped, tested = map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, s := range all {
		key := s.dir + " " + s.pkg
		if shipped[key] == nil {
			shipped[key], tested[key] = map[string]bool{}, map[string]bool{}
		}
		for _, name := range declared(s.file) {
			tested[key][name] = name != "_"
			if !s.test && name != "_" {
				shipped[key][name] = true
			}
		}
	}
	return shipped, tested
}

// declared returns the names that a file declares for its package.
func declared(f *ast.File) []string {
	var out []string
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				out = append(out, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, id := range specNames(spec) {
					out = append(out, id.Name)
				}
			}
		}
	}
	return out
}

func specNames(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		return s.Names
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	}
	return nil
}

// locals calls visit with each name that is declared in a function: receivers,
// parameters, results, and everything in bodies.
func locals(f *ast.File, visit func(*ast.Ident)) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			fieldNames(d.Recv, visit)
			signatureNames(d.Type, visit)
			if d.Body != nil {
				bodyNames(d.Body, visit)
			}
		case *ast.GenDecl:
			bodyNames(d, visit) // function literals in variables
		}
	}
}

func signatureNames(sig *ast.FuncType, visit func(*ast.Ident)) {
	fieldNames(sig.TypeParams, visit)
	fieldNames(sig.Params, visit)
	fieldNames(sig.Results, visit)
}

func fieldNames(fields *ast.FieldList, visit func(*ast.Ident)) {
	if fields == nil {
		return
	}
	for _, field := range fields.List {
		for _, id := range field.Names {
			visit(id)
		}
	}
}

// bodyNames calls visit with each name that statements and function literals
// below top declare.
func bodyNames(top ast.Node, visit func(*ast.Ident)) {
	visitAll := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				visit(id)
			}
		}
	}
	ast.Inspect(top, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			signatureNames(n.Type, visit)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				visitAll(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				visitAll(n.Key, n.Value)
			}
		case *ast.DeclStmt:
			if decl, ok := n.Decl.(*ast.GenDecl); ok {
				for _, spec := range decl.Specs {
					for _, id := range specNames(spec) {
						visit(id)
					}
				}
			}
		}
		return true
	})
}
