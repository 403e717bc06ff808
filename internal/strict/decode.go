package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Decoder fills structs from documents. The tags of a struct are the rules for a file:
//
//	field      the name in the file; a field of the struct without this tag is no field of the file
//	required   the field must not be missing; the value, if not empty, is the remedy
//	want       the only valid text
//	empty      the text may be empty
//	variables  the text, or each of a list, may contain variables
//	range      the lowest and the highest number; of a time.Duration, whole seconds
//
// A field is a string, a bool, an int, a time.Duration, a []string, a struct, a pointer to one, a slice
// of them, or a *Node, which the caller checks. A field that is missing in the file keeps its value.
// Each field that is missing in the struct is a problem, and so is each value of another type.
type Decoder struct {
	Problems *Problems
	// Variables explains each problem of the variables in a text; nil: no text contains variables.
	Variables func(text string) []string
}

// Fields is a mapping of a document, with the place and the name that its problems need.
type Fields struct {
	Node     *Node // nil: the mapping is missing
	at       Place
	path     string // ends with a dot; empty: the document itself
	kind     string // of the document, for people
	problems *Problems
}

// Decode fills a struct from a document of a kind, for people; empty: the file is the document. It
// reports false if the document is no mapping.
func (d Decoder) Decode(doc Document, kind string, out any) (Fields, bool) {
	f := Fields{Node: doc.Root, at: doc.At, kind: kind, problems: d.Problems}
	if kind != "" {
		kind = "a " + kind + " "
	}
	if doc.Root.Kind != Mapping {
		d.Problems.Add(doc.At, "%smust be a mapping", kind)
		return f, false
	}
	d.mapping(f, reflect.ValueOf(out).Elem())
	return f, true
}

// Has reports whether a field is in the file.
func (f Fields) Has(field string) bool { return f.Node != nil && f.Node.Get(field) != nil }

// In returns the mapping that is the value of a field.
func (f Fields) In(field string) Fields {
	f.Node, f.path = f.Node.Get(field), f.path+field+"."
	return f
}

// Place returns the place of a field, or of the mapping if the field is missing.
func (f Fields) Place(field string) Place {
	if n := f.Node.Get(field); n != nil {
		return f.at.At(n.Line)
	}
	return f.at.At(f.Node.Line)
}

// Add adds a problem of a field. Its message begins with the field's name, and a space unless the
// format begins with a colon.
func (f Fields) Add(field, format string, args ...any) {
	f.AddAt(f.Place(field).Line, field, format, args...)
}

// AddAt adds a problem of a field at a line of the same document.
func (f Fields) AddAt(line int, field, format string, args ...any) {
	if !strings.HasPrefix(format, ":") {
		format = " " + format
	}
	f.problems.Add(f.at.At(line), "%s%s%s", f.path, field, fmt.Sprintf(format, args...))
}

// OneOf returns the name that is in the file among names. It adds a problem unless exactly one is.
func (f Fields) OneOf(what string, names ...string) string {
	set := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !f.Has(name) })
	subject := strings.TrimSuffix(f.path, ".")
	if subject == "" {
		subject = "the " + f.kind
	}
	switch len(set) {
	case 1:
		return set[0]
	case 0:
		f.problems.Add(f.at.At(f.Node.Line), "%s has no %s; set one of %s", subject, what, strings.Join(names, ", "))
	default:
		f.problems.Add(f.Place(set[1]), "%s has %s and %s; set one %s only", subject, set[0], set[1], what)
	}
	return ""
}

// mapping fills a struct, and adds a problem for each field that the struct does not have.
func (d Decoder) mapping(f Fields, out reflect.Value) {
	known := fieldNames(out.Type())
	for _, k := range f.Node.Keys {
		if name, _ := k.Text(); !slices.Contains(known, name) {
			f.problems.Add(f.at.At(k.Line), "unknown field %q; known are %s", f.path+name, strings.Join(known, ", "))
		}
	}
	d.fill(f, out)
}

func (d Decoder) fill(f Fields, out reflect.Value) {
	for field, value := range out.Fields() {
		if field.Anonymous {
			d.fill(f, value)
			continue
		}
		name := field.Tag.Get("field")
		remedy, required := field.Tag.Lookup("required")
		switch n := f.Node.Get(name); {
		case name == "":
		case n != nil:
			d.value(f, entry{name, n, field.Tag}, value)
		case required && remedy != "":
			f.Add(name, "is missing; %s", remedy)
		case required:
			f.Add(name, "is missing")
		}
	}
}

// fieldNames returns the names of a struct's fields in a file.
func fieldNames(t reflect.Type) []string {
	var out []string
	for field := range t.Fields() {
		if field.Anonymous {
			out = append(out, fieldNames(field.Type)...)
		} else if name := field.Tag.Get("field"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// entry is a value, its name in its mapping, and the tags of its field.
type entry struct {
	name string
	node *Node
	tag  reflect.StructTag
}

func (i entry) is(tag string) bool { _, is := i.tag.Lookup(tag); return is }

func (d Decoder) value(f Fields, i entry, out reflect.Value) {
	switch v := out.Addr().Interface().(type) {
	case **Node:
		*v = i.node
	case *string:
		*v = d.text(f, i)
	case *bool:
		is, ok := i.node.Value.(bool)
		if !ok {
			f.Add(i.name, "must be true or false")
		}
		*v = is
	case *int:
		*v = number(f, i)
	case *time.Duration:
		*v = duration(f, i)
	case *[]string:
		d.each(f, i, "strings", func(element entry) {
			*v = append(*v, d.text(f, element))
		})
	default:
		d.composite(f, i, out)
	}
}

// composite fills a struct, a pointer to one, or a slice of them.
func (d Decoder) composite(f Fields, i entry, out reflect.Value) {
	if out.Kind() == reflect.Slice {
		of := "items with " + strings.Join(fieldNames(out.Type().Elem()), " and ")
		d.each(f, i, of, func(element entry) {
			v := reflect.New(out.Type().Elem()).Elem()
			d.composite(f, element, v)
			out.Set(reflect.Append(out, v))
		})
		return
	}
	if i.node.Kind != Mapping {
		f.AddAt(i.node.Line, i.name, "must be a mapping")
		return
	}
	if out.Kind() == reflect.Pointer {
		out.Set(reflect.New(out.Type().Elem()))
		out = out.Elem()
	}
	f.Node, f.path = i.node, f.path+i.name+"."
	d.mapping(f, out)
}

// each calls use with each element of a list.
func (d Decoder) each(f Fields, i entry, of string, use func(entry)) {
	if i.node.Kind != Sequence {
		f.Add(i.name, "must be a list of %s", of)
		return
	}
	for n, node := range i.node.Items {
		use(entry{fmt.Sprintf("%s[%d]", i.name, n), node, i.tag + ` empty:""`})
	}
}

func (d Decoder) text(f Fields, i entry) string {
	const quotes = "; put it in quotes if it is a number or a word like true"
	add := func(format string, args ...any) { f.AddAt(i.node.Line, i.name, format, args...) }
	text, ok := i.node.Text()
	want, one := i.tag.Lookup("want")
	switch {
	case one && text != want:
		add("must be %s", want)
	case i.is("empty") && !ok:
		add("must be a string" + quotes)
	case !i.is("empty") && text == "":
		add("must be a string that is not empty" + quotes)
	case strings.ContainsRune(text, 0):
		add("has a NUL character")
	default:
		if i.is("variables") && d.Variables != nil {
			for _, problem := range d.Variables(text) {
				add(": %s", problem)
			}
		}
		return text
	}
	return ""
}

// number returns a whole number in the range of a field; 0: a problem was added.
func number(f Fields, i entry) int {
	var lowest, highest int64
	if _, err := fmt.Sscan(i.tag.Get("range"), &lowest, &highest); err != nil {
		panic(fmt.Sprintf("the field %q has no range", i.name))
	}
	v, ok := i.node.Value.(int64)
	if !ok || v < lowest || v > highest {
		f.Add(i.name, "must be a whole number from %d to %d", lowest, highest)
		return 0
	}
	return int(v)
}

// duration returns a duration, in whole seconds if the field has a range, as in a kubelet's probe, else
// with a unit; 0: a problem was added.
func duration(f Fields, i entry) time.Duration {
	if i.is("range") {
		return time.Duration(number(f, i)) * time.Second
	}
	text, _ := i.node.Text()
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 24*time.Hour {
		f.Add(i.name, "must be a duration above 0 and up to 24h, with a unit, like 30s or 1m30s")
		return 0
	}
	return d
}
