package kube

import (
	"bytes"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decoder decodes the objects of one list or watch, in one pass over each. Most of them have the
// same fields in managedFields, which are the larger part of their metadata. It decodes equal
// fields once, so that the objects share them: no caller may change what is in the managedFields of
// an object. It remembers short ones only: a watch lives for minutes, and users can make long ones.
type decoder struct {
	shared map[string]any
	text   []byte
	at     int // of the next byte
	depth  int // of the maps and lists around
}

const (
	// maxShared bounds how many different fields are remembered, and maxSharedText the bytes of each.
	maxShared     = 64
	maxSharedText = 16 << 10
	// fieldsDepth is the depth of metadata.managedFields[].fieldsV1. Deeper ones, in each other, would each be read again.
	fieldsDepth = 4
	// maxDepth is the depth of nested values at which encoding/json gives up as well.
	maxDepth = 10_000
)

// kept decodes an object, if keep selects it; nil: it does not.
func (d *decoder) kept(raw []byte, keep Filter) (*Object, error) {
	if keep != nil {
		h, err := headOf(raw)
		if err != nil || !keep(h) {
			return nil, err
		}
	}
	d.text, d.at, d.depth = raw, 0, 0
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	object, isMap := v.(map[string]any)
	if !isMap || d.next() != 0 || d.at < len(raw) {
		return nil, fmt.Errorf("%w: it is not one object", errSyntax)
	}
	d.text = nil
	return &Object{Object: object}, nil
}

// next skips white space, and returns the byte after it, which stays the next one; 0: the text ends.
func (d *decoder) next() byte {
	for ; d.at < len(d.text); d.at++ {
		if b := d.text[d.at]; b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return b
		}
	}
	return 0
}

// skip skips white space and one of two bytes, and reports whether it was the first one.
func (d *decoder) skip(first, second byte) (isFirst bool, err error) {
	b := d.next()
	if b != first && b != second {
		return false, fmt.Errorf("%w: got %q, want %q or %q", errSyntax, b, first, second)
	}
	d.at++
	return b == first, nil
}

// value decodes the next value.
func (d *decoder) value() (any, error) {
	switch d.next() {
	case '{':
		return d.nested(d.object)
	case '[':
		return d.nested(d.list)
	case '"':
		return d.string()
	}
	return d.scalar()
}

// nested calls decode after the first byte of a map or list.
func (d *decoder) nested(decode func() (any, error)) (any, error) {
	if d.depth == maxDepth {
		return nil, fmt.Errorf("%w: it is nested too deeply", errSyntax)
	}
	d.at++
	d.depth++
	defer func() { d.depth-- }()
	return decode()
}

func (d *decoder) object() (any, error) {
	out := map[string]any{}
	if d.next() == '}' {
		d.at++
		return out, nil
	}
	for {
		if d.next() != '"' {
			return nil, fmt.Errorf("%w: got %q, want a name", errSyntax, d.next())
		}
		name, err := d.string()
		if err != nil {
			return nil, err
		}
		if _, err := d.skip(':', ':'); err != nil {
			return nil, err
		}
		value := d.value
		if name == "fieldsV1" && d.depth == fieldsDepth {
			value = d.once
		}
		if out[name], err = value(); err != nil {
			return nil, err
		}
		if more, err := d.skip(',', '}'); err != nil || !more {
			return out, err
		}
	}
}

func (d *decoder) list() (any, error) {
	out := []any{}
	if d.next() == ']' {
		d.at++
		return out, nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if more, err := d.skip(',', ']'); err != nil || !more {
			return out, err
		}
	}
}

// string decodes a string. Most are printable ASCII without a backslash.
func (d *decoder) string() (string, error) {
	raw := d.text[d.at:]
	if n := bytes.IndexByte(raw[1:], '"') + 1; n > 0 && plain(raw[1:n]) {
		d.at += n + 1
		return string(raw[1:n]), nil
	}
	var out string
	raw, err := d.raw()
	if err == nil {
		err = utiljson.Unmarshal(raw, &out)
	}
	return out, err
}

// plain reports whether the text of a string is the string itself.
func plain(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' || b == '\\' {
			return false
		}
	}
	return true
}

// scalar decodes a number, true, false or null.
func (d *decoder) scalar() (out any, err error) {
	raw, err := d.raw()
	if err == nil {
		err = utiljson.Unmarshal(raw, &out)
	}
	return out, err
}

// once decodes a value, unless it decoded the same text before.
func (d *decoder) once() (any, error) {
	begin := d.at
	raw, err := d.raw()
	if err != nil {
		return nil, err
	}
	if v, known := d.shared[string(raw)]; known {
		return v, nil
	}
	d.at = begin
	v, err := d.value()
	if err != nil || len(d.shared) == maxShared || len(raw) > maxSharedText {
		return v, err
	}
	if d.shared == nil {
		d.shared = map[string]any{}
	}
	d.shared[string(raw)] = v
	return v, nil
}

// raw returns the next value as it is.
func (d *decoder) raw() ([]byte, error) {
	d.next()
	var end valueEnd
	n, found := end.find(d.text[d.at:])
	if n == 0 || !found && !end.inScalar {
		return nil, fmt.Errorf("%w: a value is missing or cut off", errSyntax)
	}
	out := d.text[d.at : d.at+n]
	d.at += n
	return out, nil
}
