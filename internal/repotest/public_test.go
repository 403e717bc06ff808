package repotest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPublicPackagesAreUsableFromOutside: what a public package takes, returns
// and has in exported fields can be named by a program that imports it. A type
// of an internal package cannot, except by an alias that the public package declares.
func TestPublicPackagesAreUsableFromOutside(t *testing.T) {
	exports := exportData(t)
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	checked := 0
	for path := range exports {
		if !isPublic(path) {
			continue
		}
		pkg, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		for _, leak := range internalTypes(pkg) {
			t.Errorf("%s: %s, which no other module can name", path, leak)
		}
	}
	if checked < 10 {
		t.Errorf("checked %d packages only: does this test still see them?", checked)
	}
}

// isPublic reports whether a package is one of this module that others may
// import and that is not only for its own tests.
func isPublic(path string) bool {
	dir, ours := dirOf(path)
	return ours && !isInternal(path) && !strings.HasPrefix(dir, "cmd/") && !strings.HasPrefix(dir, "test/")
}

func isInternal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// exportData returns the file with the types of each package that this module
// needs. The flags are those of the Makefile's builds: nothing is compiled twice.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-trimpath", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[path] = file
	}
	return out
}

// internalTypes says where exported names of pkg lead to types of internal
// packages, one sentence each, in order.
func internalTypes(pkg *types.Package) []string {
	s := &surface{pkg: pkg, seen: map[*types.TypeName]bool{}, aliased: aliased(pkg)}
	for _, name := range pkg.Scope().Names() { // sorted
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			s.object(obj)
		}
	}
	return s.leaks
}

// surface walks what a package shows to others.
type surface struct {
	pkg     *types.Package
	seen    map[*types.TypeName]bool // declared in pkg
	aliased map[*types.TypeName]bool // of internal packages, with a name in pkg
	leaks   []string
}

// aliased returns the types of other packages that have an exported name in pkg as well.
func aliased(pkg *types.Package) map[*types.TypeName]bool {
	out := map[*types.TypeName]bool{}
	for _, name := range pkg.Scope().Names() {
		if alias, ok := pkg.Scope().Lookup(name).Type().(*types.Alias); ok && ast.IsExported(name) {
			if named, ok := types.Unalias(alias).(*types.Named); ok {
				out[named.Obj()] = true
			}
		}
	}
	return out
}

func (s *surface) object(obj types.Object) {
	if name, ok := obj.(*types.TypeName); ok {
		s.declared(name.Name(), name)
		return
	}
	s.typ(obj.Name(), obj.Type())
}

// declared walks a type that pkg declares: what it is, and its exported methods.
func (s *surface) declared(where string, name *types.TypeName) {
	if s.seen[name] {
		return
	}
	s.seen[name] = true
	switch t := name.Type().(type) {
	case *types.Alias:
		s.params(where, t.TypeParams())
		s.typ(where, t.Rhs())
	case *types.Named:
		s.params(where, t.TypeParams())
		s.typ(where, t.Underlying())
		for m := range t.Methods() {
			if m.Exported() {
				s.typ(where+"."+m.Name(), m.Type())
			}
		}
	}
}

func (s *surface) params(where string, list *types.TypeParamList) {
	for p := range list.TypeParams() {
		s.typ(where, p.Constraint())
	}
}

// typ walks a type where it is used.
func (s *surface) typ(where string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		s.named(where, t.Obj(), t.TypeArgs())
	case *types.Named:
		s.named(where, t.Obj(), t.TypeArgs())
	case *types.Struct:
		s.fields(where, t)
	case *types.Interface:
		s.methods(where, t)
	case *types.Signature:
		s.params(where, t.TypeParams())
		s.typ(where, t.Params())
		s.typ(where, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			s.typ(where, v.Type())
		}
	case *types.Map:
		s.typ(where, t.Key())
		s.typ(where, t.Elem())
	case *types.Union:
		for term := range t.Terms() {
			s.typ(where, term.Type())
		}
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		s.typ(where, t.Elem())
	}
}

// named walks a use of a type that has a name. One of another public package is
// checked there; an unexported one of pkg is walked here, since its exported
// fields and methods can be reached through what uses it.
func (s *surface) named(where string, name *types.TypeName, args *types.TypeList) {
	for arg := range args.Types() {
		s.typ(where, arg)
	}
	switch {
	case name.Pkg() == nil: // error, any
	case name.Pkg() == s.pkg && name.Exported(): // walked from the scope
	case name.Pkg() == s.pkg:
		s.declared(where+" ("+name.Name()+")", name)
	case s.aliased[name]:
		s.declared(where, name)
	case isInternal(name.Pkg().Path()) && strings.HasPrefix(name.Pkg().Path(), module):
		s.leaks = append(s.leaks, fmt.Sprintf("%s has %s.%s", where, name.Pkg().Path(), name.Name()))
	}
}

// fields walks exported fields, and embedded ones: what they have is promoted.
func (s *surface) fields(where string, t *types.Struct) {
	for f := range t.Fields() {
		if f.Exported() || f.Embedded() {
			s.typ(where+"."+f.Name(), f.Type())
		}
	}
}

func (s *surface) methods(where string, t *types.Interface) {
	for m := range t.ExplicitMethods() {
		if m.Exported() {
			s.typ(where+"."+m.Name(), m.Type())
		}
	}
	for e := range t.EmbeddedTypes() {
		s.typ(where, e)
	}
}

// TestInternalTypesAreFound shows that the test above can fail.
func TestInternalTypesAreFound(t *testing.T) {
	hidden := check(t, module+"/internal/x", "package x; type T struct{}; type W struct{ F T }; type A = struct{ N int }; type G[E any] struct{ E E }", nil)
	for text, want := range map[string]string{
		"func F(x.T) {}": "F has",
		"func F() (int, []*x.T) { return 0, nil }":       "F has",
		"func F(func(map[string]x.T)) {}":                "F has",
		"func f(x.T) {}":                                 "",
		"var V chan x.T":                                 "V has",
		"type T struct { F x.T }":                        "T.F has",
		"type T struct { f x.T }":                        "",
		"type T struct { x.T }":                          "T.T has",
		"type T = x.T":                                   "", // a name that others can use
		"type T = x.T; type U struct { F x.T }":          "",
		"type T = x.W":                                   "T.F has",
		"type T = x.A":                                   "T has",
		"type T = []x.T":                                 "T has",
		"type T x.T":                                     "", // its fields are what counts
		"type T struct{}; func (*T) M(x.T) {}":           "T.M has",
		"type T struct{}; func (*T) m(x.T) {}":           "",
		"type T interface { M() x.T }":                   "T.M has",
		"type T interface { x.T | int }":                 "T has",
		"type t struct { F x.T }; func F() *t":           "F (t).F has",
		"type t struct { F x.T }; type T struct { *t }":  "T.t (t).F has",
		"type t = x.T; func F(t)":                        "F (t) has",
		"type T[E any] struct { E E }; func F(T[x.T])":   "F has",
		"func F[E interface{ M(x.T) }](E) {}":            "F.M has",
		"type T struct { Next *T; F func(*T) x.G[int] }": "T.F has",
	} {
		pkg := check(t, module+"/p", "package p; import x \""+module+"/internal/x\"; var _ x.T; "+text, hidden)
		got := strings.Join(internalTypes(pkg), "; ")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// check type-checks one file, which may import one package.
func check(t *testing.T, path, text string, imported *types.Package) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	cfg := types.Config{Importer: only{imported}, IgnoreFuncBodies: true}
	pkg, err := cfg.Check(path, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return pkg
}

// only imports one package.
type only struct{ pkg *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.pkg, nil }
