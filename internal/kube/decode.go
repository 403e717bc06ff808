package kube

import (
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decoder decodes the objects of one list or watch, in one pass over each. Most of them have the
// same fields in managedFields, which are the larger part of their metadata. It decodes equal
// fields once, so that the objects share them: no caller may change what is in the managedFields of
// an object. It remembers short ones only: a watch lives for minutes, and users can make long ones.
type decoder struct {
	shared map[string]any
	text   scanner // of the object that is being decoded
	depth  int     // of the maps and lists around
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
	d.text, d.depth = scanner{buf: raw, ended: true}, 0
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	object, isMap := v.(map[string]any)
	if _, ended := d.text.next(); !isMap || ended == nil {
		return nil, fmt.Errorf("%w: it is not one object", errSyntax)
	}
	d.text = scanner{}
	return &Object{Object: object}, nil
}

// value decodes the next value.
func (d *decoder) value() (any, error) {
	first, err := d.text.next()
	switch {
	case err != nil:
		return nil, err
	case first == '{' || first == '[':
		return d.nested(first)
	case first == '"':
		return d.text.string()
	}
	raw, err := d.text.value()
	if err != nil {
		return nil, err
	}
	var out any
	err = utiljson.Unmarshal(raw, &out)
	return out, err
}

// nested decodes a map or a list, which begins with this byte.
func (d *decoder) nested(first byte) (any, error) {
	if d.depth == maxDepth {
		return nil, fmt.Errorf("%w: it is nested too deeply", errSyntax)
	}
	d.depth++
	defer func() { d.depth-- }()
	if first == '[' {
		list := []any{}
		err := d.text.each(func() error {
			v, err := d.value()
			list = append(list, v)
			return err
		})
		return list, err
	}
	object := map[string]any{}
	err := d.text.members(func(name string) (_ bool, err error) {
		value := d.value
		if name == "fieldsV1" && d.depth == fieldsDepth {
			value = d.once
		}
		object[name], err = value()
		return true, err
	})
	return object, err
}

// once decodes a value, unless it decoded the same text before.
func (d *decoder) once() (any, error) {
	begin := d.text.at
	raw, err := d.text.value()
	if err != nil {
		return nil, err
	}
	if v, known := d.shared[string(raw)]; known {
		return v, nil
	}
	d.text.at = begin
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
