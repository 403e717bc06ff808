package role

import (
	"go/ast"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDrawing holds the drawing in the package comment to the code: who writes and who
// reads each value. It requires one writer for each value that the package creates, and
// none for those that it gets.
func TestDrawing(t *testing.T) {
	d := &drawing{sourceText: readSource(t), names: map[*types.Var]string{}, created: map[string]bool{}, rows: map[string]*row{}}
	d.findValues()
	d.findWriters(t)
	d.findReadersInNewServer()
	d.findOtherReaders()
	if diff := cmp.Diff(d.wired(t), drawn(d.files["doc.go"])); diff != "" {
		t.Errorf("the drawing in doc.go is not what the code does (-code +drawing):\n%s", diff)
	}
}

// drawing is the flow of the values in the code.
type drawing struct {
	*sourceText
	names   map[*types.Var]string // of the fields that hold a value
	created map[string]bool       // the values that this package creates
	rows    map[string]*row
}

// row is one of the drawing: the types that write a value and those that read it.
type row struct{ writers, readers map[string]bool }

func (d *drawing) row(value string) *row {
	if d.rows[value] == nil {
		d.rows[value] = &row{map[string]bool{}, map[string]bool{}}
	}
	return d.rows[value]
}

// caller is the code that uses this package.
const caller = "caller"

// ofGroup is the value of a Group, which is a part of Supervised.
const ofGroup = "Supervised.Of"

// drawn returns the rows of the drawing, each as its value, writer and readers.
func drawn(doc *ast.File) []string {
	var out []string
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+\.\S+) +(\S+) +(.+)$`).FindAllStringSubmatch(doc.Doc.Text(), -1) {
		out = append(out, rowText(line[1], line[2], strings.Split(line[3], ", ")))
	}
	slices.Sort(out)
	return out
}

func rowText(value, writer string, readers []string) string {
	return value + ": " + writer + " -> " + strings.Join(slices.Sorted(slices.Values(readers)), ", ")
}

// wired returns the same of the code: of the values that another type reads than their own.
func (d *drawing) wired(t *testing.T) []string {
	t.Helper()
	var out []string
	for value, r := range d.rows {
		owner, _, _ := strings.Cut(value, ".")
		if strings.HasSuffix(owner, "Config") {
			owner = caller
		}
		writers := slices.Sorted(maps.Keys(r.writers))
		if len(writers) == 0 {
			writers = []string{owner}
		}
		if len(writers) != 1 {
			t.Errorf("%s has the writers %v, want one", value, writers)
		}
		if len(r.readers) > 0 {
			out = append(out, rowText(value, strings.Join(writers, "+"), slices.Collect(maps.Keys(r.readers))))
		}
	}
	slices.Sort(out)
	return out
}

// findValues finds the fields that hold a value, and the values that this package creates.
// A value is named by the method that returns it, if there is one.
func (d *drawing) findValues() {
	for _, file := range d.files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if s, is := spec.Type.(*ast.StructType); is {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						if d.isValue(f.Type) {
							d.names[d.info.Defs[name].(*types.Var)] = spec.Name.Name + "." + name.Name
						}
					}
				}
			}
			return true
		})
	}
	for _, f := range d.functions(false) {
		if field := d.field(returned(f)); d.names[field] == receiver(f)+"."+strings.ToLower(f.Name.Name) {
			d.names[field] = receiver(f) + "." + f.Name.Name
		}
	}
	for field, name := range d.names {
		if strings.HasPrefix(name, "Group.") {
			d.names[field] = ofGroup
		}
	}
	for _, f := range d.functions(false) {
		d.eachAssignment(f, func(field *types.Var, value ast.Expr) {
			if call, is := value.(*ast.CallExpr); is && dotted(call.Fun) == "event.New" {
				d.created[d.names[field]] = true
			}
		})
	}
}

// isValue reports whether an expression of this type can be followed: an event value, or a
// function that returns a channel. A Member and its Cluster are followed too, by
// asking them.
func (d *drawing) isValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		index, is := e.X.(*ast.IndexExpr)
		return is && dotted(index.X) == "event.Value"
	case *ast.FuncType:
		return e.Results != nil && slices.ContainsFunc(e.Results.List, func(f *ast.Field) bool {
			_, is := f.Type.(*ast.ChanType)
			return is
		})
	}
	return dotted(e) == "Member" || dotted(e) == "Cluster"
}

// eachAssignment calls do with each field that a function sets, and the assigned expression.
func (d *drawing) eachAssignment(f *ast.FuncDecl, do func(*types.Var, ast.Expr)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is {
				if field, is := d.info.Uses[key].(*types.Var); is {
					do(field, n.Value)
				}
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field := d.field(to); field != nil && len(n.Rhs) == len(n.Lhs) {
					do(field, n.Rhs[i])
				}
			}
		}
		return true
	})
}

// findWriters finds the types that set a value. Code in the constructor of a type counts as
// that type.
func (d *drawing) findWriters(t *testing.T) {
	t.Helper()
	for _, f := range d.functions(false) {
		ast.Inspect(f, func(n ast.Node) bool {
			value := d.written(n)
			if value == "" {
				return true
			}
			by := d.part(f)
			if by == "" {
				by = strings.TrimPrefix(f.Name.Name, "New")
			}
			if !d.created[value] && !strings.HasPrefix(value, "Disk.") {
				t.Errorf("%s writes %s, which this package does not create", by, value)
			}
			d.row(value).writers[by] = true
			return true
		})
	}
}

// written returns the value that a call sets; empty: it sets none.
func (d *drawing) written(n ast.Node) string {
	call, is := n.(*ast.CallExpr)
	if !is {
		return ""
	}
	if fun := dotted(call.Fun); fun == "set" || fun == "event.Update" {
		return d.value(call.Args[0])
	}
	if of, method := d.method(call.Fun); of == "Disk" {
		if value, is := strings.CutPrefix(method.Name(), "Set"); is {
			return "Disk." + value
		}
	}
	if sel, is := call.Fun.(*ast.SelectorExpr); is && sel.Sel.Name == "Set" {
		return d.value(sel.X)
	}
	return ""
}

// value names the value that an expression is; empty: it is none.
func (d *drawing) value(e ast.Expr) string {
	if call, is := e.(*ast.CallExpr); is {
		if dotted(call.Fun) == "held" {
			return d.value(call.Args[0])
		}
		e = call.Fun
	}
	if name := d.names[d.field(e)]; name != "" {
		return name
	}
	of, method := d.method(e)
	switch {
	case method == nil:
		return ofOthers(e)
	case of == "Disk" && !strings.HasPrefix(method.Name(), "Load") && method.Name() != "KeepRoles": // these are about the file
		return "Disk." + strings.TrimPrefix(method.Name(), "Set")
	case of == "Fetcher" && method.Name() == "First", of == "Supervised" && method.Name() == "Of":
		return of + "." + method.Name()
	}
	for _, f := range d.functions(false) {
		if d.info.Defs[f.Name] == method && f.Type.Results != nil && d.isValue(f.Type.Results.List[0].Type) && of != "Server" && of != "Group" {
			return of + "." + f.Name.Name
		}
	}
	return ""
}

// ofOthers names a value that a worker of another package writes, or that is in its config.
func ofOthers(e ast.Expr) string {
	switch path := strings.Split(dotted(e), "."); {
	case len(path) != 3 || path[2] == "Run":
	case path[0] == "s" && path[1] == "registrar":
		return "Registrar." + path[2]
	case path[0] == "s" && path[1] == "gate" && path[2] == "Shown":
		return "Gate.Shown"
	case path[0] == "cfg" && (path[1] == "Registrar" || path[1] == "Gate"):
		return path[1] + "Config." + path[2]
	}
	return ""
}

// findReadersInNewServer finds the workers that get a value.
func (d *drawing) findReadersInNewServer() {
	add := func(reader string, value ast.Expr) {
		if name := d.value(value); name != "" {
			d.row(name).readers[reader] = true
		}
	}
	for _, f := range d.functions(false) {
		if f.Name.Name != "NewServer" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if name, is := strings.CutSuffix(dotted(n.Type), "Config"); is {
					name = strings.TrimPrefix(name, "fleet.")
					for _, field := range n.Elts {
						add(name, field.(*ast.KeyValueExpr).Value)
					}
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					switch path := strings.Split(dotted(to), "."); {
					case len(path) == 3 && path[0] == "cfg":
						add(path[1], n.Rhs[i])
					case dotted(to) == "s.controller.cfg.Shown":
						add("Starter", n.Rhs[i])
					}
				}
			}
			return true
		})
	}
}

// findOtherReaders finds the methods that use a value of another type. The result of a method
// of Server is for the caller.
func (d *drawing) findOtherReaders() {
	runsAs := d.wrapped()
	for _, f := range d.functions(false) {
		of := d.part(f)
		if of == "" {
			continue
		}
		reader := of
		if name := runsAs[d.info.Defs[f.Name]]; name != "" {
			reader = name
		}
		if value := d.value(returned(f)); value != "" && receiver(f) == "Server" {
			d.row(value).readers[caller] = true
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if d.written(n) != "" {
				return false
			}
			if e, is := n.(ast.Expr); is {
				value := d.value(e)
				owner, _, _ := strings.Cut(value, ".")
				if value != "" && owner != of && owner != of+"Config" || owner == "ServerConfig" {
					d.row(value).readers[reader] = true
				}
			}
			return true
		})
	}
}

// part returns the type that a method belongs to. A Group is a part of Supervised.
func (d *drawing) part(f *ast.FuncDecl) string {
	if of := receiver(f); of != "Group" {
		return of
	}
	return "Supervised"
}

// wrapped returns the methods of Server that run as a worker, with its name: those in the
// Start of a worker, and those that these call.
func (d *drawing) wrapped() map[types.Object]string {
	out := map[types.Object]string{}
	bodies := map[types.Object]*ast.FuncDecl{}
	var add func(name string, n ast.Node)
	add = func(name string, n ast.Node) {
		for f := range d.calls(n) {
			if body := bodies[f]; body != nil && out[f] == "" {
				out[f] = name
				add(name, body.Body)
			}
		}
	}
	for _, f := range d.functions(false) {
		if receiver(f) == "Server" {
			bodies[d.info.Defs[f.Name]] = f
		}
	}
	for _, f := range d.functions(false) {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && len(call.Args) == 2 && strings.HasSuffix(dotted(call.Fun), ".Start") {
				if name, is := call.Args[0].(*ast.BasicLit); is {
					add(strings.Trim(name.Value, `"`), call.Args[1])
				}
			}
			return true
		})
	}
	return out
}

// returned returns the result of a function with one statement; nil: it returns nothing.
func returned(f *ast.FuncDecl) ast.Expr {
	if len(f.Body.List) != 1 {
		return nil
	}
	if s, is := f.Body.List[0].(*ast.ReturnStmt); is && len(s.Results) == 1 {
		return s.Results[0]
	}
	return nil
}
