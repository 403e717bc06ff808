package role

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sourceText is the text of this package with its tests. Names that the package declares are
// resolved. Names of other packages are not: they are not read.
type sourceText struct {
	files map[string]*ast.File
	info  types.Info
}

func readSource(t *testing.T) *sourceText {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	s := &sourceText{files: map[string]*ast.File{}, info: types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	places := token.NewFileSet()
	for _, name := range names {
		if s.files[name], err = parser.ParseFile(places, name, nil, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
	}
	conf := types.Config{Error: func(error) {}} // imports are missing: that is known
	_, _ = conf.Check("role", places, slices.Collect(maps.Values(s.files)), &s.info)
	return s
}

// functions returns the functions and methods of the tests, or of the rest.
//
//revive:disable-next-line:flag-parameter these are the two kinds of files
func (s *sourceText) functions(ofTests bool) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasSuffix(name, "_test.go") != ofTests {
			continue
		}
		for _, d := range s.files[name].Decls {
			if f, is := d.(*ast.FuncDecl); is {
				out = append(out, f)
			}
		}
	}
	return out
}

// method returns the method that a selector names, with its type; nil: it names none of
// this package.
func (s *sourceText) method(e ast.Expr) (of string, method *types.Func) {
	sel, is := e.(*ast.SelectorExpr)
	if !is || s.info.Selections[sel] == nil {
		return "", nil
	}
	method, is = s.info.Selections[sel].Obj().(*types.Func)
	if !is {
		return "", nil
	}
	return typeName(method.Signature().Recv().Type()), method
}

// field returns the field that a selector names; nil: it names none of this package.
func (s *sourceText) field(e ast.Expr) *types.Var {
	sel, is := e.(*ast.SelectorExpr)
	if !is || s.info.Selections[sel] == nil {
		return nil
	}
	field, _ := s.info.Selections[sel].Obj().(*types.Var)
	return field
}

// calls returns the functions and methods of this package that a node names.
func (s *sourceText) calls(n ast.Node) map[types.Object]bool {
	out := map[types.Object]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is {
			if f, is := s.info.Uses[name].(*types.Func); is {
				out[f] = true
			}
		}
		return true
	})
	return out
}

// typeName returns the name of a type, or of the type that it points to.
func typeName(t types.Type) string {
	if p, is := t.(*types.Pointer); is {
		t = p.Elem()
	}
	if named, is := t.(*types.Named); is {
		return named.Obj().Name()
	}
	return ""
}

// receiver is the type that a method belongs to; empty: it is a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	if star, is := expr.(*ast.StarExpr); is {
		expr = star.X
	}
	return dotted(expr)
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
