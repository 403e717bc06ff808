package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/strict"
)

// reader reads one file, and adds its problems to the loader's.
type reader struct {
	*loader
	at strict.Place // the place of the document
}

// add adds a problem at a line.
func (r *reader) add(line int, format string, args ...any) {
	r.problems.Add(r.at.At(line), format, args...)
}

// fields is a mapping in the file: its fields, and its path for messages.
type fields struct {
	r    *reader
	node *strict.Node
	path string // ends with a dot; empty: the file itself
}

// fields checks that a node is a mapping with no fields except the known ones. It reports false if
// the node is no mapping.
func (r *reader) fields(n *strict.Node, path string, known ...string) (fields, bool) {
	if n == nil || n.Kind != strict.Mapping {
		line := r.at.Line
		if n != nil {
			line = n.Line
		}
		r.add(line, "%s must be a mapping", cmp.Or(strings.TrimSuffix(path, "."), "a service"))
		return fields{}, false
	}
	for _, k := range n.Keys {
		if name, _ := k.Text(); !slices.Contains(known, name) {
			r.add(k.Line, "unknown field %q; known are %s", path+name, strings.Join(known, ", "))
		}
	}
	return fields{r: r, node: n, path: path}, true
}

// add adds a problem of a field, at the line of the field, or of the mapping if the field is
// missing.
func (f fields) add(field, format string, args ...any) {
	line := f.node.Line
	if n := f.node.Get(field); n != nil {
		line = n.Line
	}
	f.r.add(line, "%s%s %s", f.path, field, fmt.Sprintf(format, args...))
}

func (f fields) has(field string) bool { return f.node.Get(field) != nil }

// text returns a string; empty: the field is missing, or a problem was added.
func (f fields) text(field string) string {
	n := f.node.Get(field)
	if n == nil {
		return ""
	}
	s, ok := n.Text()
	if !ok || s == "" {
		f.add(field, "must be a string that is not empty; put it in quotes if it is a number or a word like true")
		return ""
	}
	if strings.ContainsRune(s, 0) {
		f.add(field, "has a NUL character")
		return ""
	}
	return s
}

// required returns a string, and adds a problem if it is missing.
func (f fields) required(field string) string {
	if !f.has(field) {
		f.add(field, "is missing")
	}
	return f.text(field)
}

// equals adds a problem unless the value of a field is want.
func (f fields) equals(field, want string) {
	if got := f.required(field); got != "" && got != want {
		f.add(field, "must be %s", want)
	}
}

// expanded checks the variables in a text, and returns the text with sample values.
func (f fields) expanded(line int, where, text string) string {
	out, unknown := expand(text, samples().byName())
	for _, name := range unknown {
		f.r.add(line, "%s%s: unknown variable $(%s); known are %s; write $$(%s) if it is text", f.path, where, name,
			strings.Join(VariableNames(), ", "), name)
	}
	return out
}

// variable returns a required string with its variables, and the same string with sample values.
func (f fields) variable(field string) (text, sample string) {
	text = f.required(field)
	if text == "" {
		return "", ""
	}
	return text, f.expanded(f.node.Get(field).Line, field, text)
}

// list returns a list of strings that may contain variables.
func (f fields) list(field string) []string {
	n := f.node.Get(field)
	if n == nil {
		return nil
	}
	if n.Kind != strict.Sequence {
		f.add(field, "must be a list of strings")
		return nil
	}
	var out []string
	for i, item := range n.Items {
		s, ok := item.Text()
		where := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !ok:
			f.r.add(item.Line, "%s%s must be a string; put it in quotes if it is a number or a word like true", f.path, where)
			continue
		case strings.ContainsRune(s, 0):
			f.r.add(item.Line, "%s%s has a NUL character", f.path, where)
			continue
		}
		f.expanded(item.Line, where, s)
		out = append(out, s)
	}
	return out
}

// number returns a whole number from lowest to highest, or fallback if the field is missing.
func (f fields) number(field string, fallback, lowest, highest int) int {
	n := f.node.Get(field)
	if n == nil {
		return fallback
	}
	v, ok := n.Value.(int64)
	if !ok || v < int64(lowest) || v > int64(highest) {
		f.add(field, "must be a whole number from %d to %d", lowest, highest)
		return fallback
	}
	return int(v)
}

// seconds returns a duration from a field in whole seconds, as in a kubelet's probe.
func (f fields) seconds(field string, fallback time.Duration, lowest int) time.Duration {
	return time.Duration(f.number(field, int(fallback/time.Second), lowest, 86400)) * time.Second
}

// duration returns a positive duration from a field with a unit.
func (f fields) duration(field string, fallback time.Duration) time.Duration {
	n := f.node.Get(field)
	if n == nil {
		return fallback
	}
	s, _ := n.Text()
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > 24*time.Hour {
		f.add(field, "must be a duration above 0 and up to 24h, with a unit, like 30s or 1m30s")
		return fallback
	}
	return d
}

// boolean returns true or false.
func (f fields) boolean(field string) bool {
	n := f.node.Get(field)
	if n == nil {
		return false
	}
	v, ok := n.Value.(bool)
	if !ok {
		f.add(field, "must be true or false")
	}
	return v
}

// oneOf returns the name that is set among names. It adds a problem unless exactly one is set.
func (f fields) oneOf(what string, names ...string) string {
	var set []string
	for _, name := range names {
		if f.has(name) {
			set = append(set, name)
		}
	}
	switch len(set) {
	case 1:
		return set[0]
	case 0:
		f.r.add(f.node.Line, "%shas no %s; set one of %s", f.prefix(), what, strings.Join(names, ", "))
	default:
		f.r.add(f.node.Get(set[1]).Line, "%shas %s and %s; set one %s only", f.prefix(), set[0], set[1], what)
	}
	return ""
}

// prefix begins a sentence about the mapping itself.
func (f fields) prefix() string {
	if f.path == "" {
		return "the service "
	}
	return strings.TrimSuffix(f.path, ".") + " "
}
