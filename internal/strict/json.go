package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads the documents of a .json file. It does not use the YAML parser,
// which knows neither surrogate pairs nor JSON's rules for numbers.
func readJSON(file string, data []byte, p *Problems) []Document {
	r := jsonReader{data: data, problems: p, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	var out []Document
	for n := 1; ; n++ {
		r.at = Place{File: file, Document: n}
		root, err := r.next(0)
		if errors.Is(err, io.EOF) && root == nil && r.open == 0 {
			return out
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			p.Add(r.at.At(r.line()), "not valid JSON: %v", err)
			return out
		}
		out = append(out, Document{At: r.at.At(root.Line), Root: root})
	}
}

// jsonReader walks the tokens of encoding/json: only they show duplicate keys.
type jsonReader struct {
	data     []byte
	decoder  *json.Decoder
	problems *Problems
	at       Place
	open     int // objects and arrays that began and did not end
	seenLine int // the line of seenAt, from 0
	seenAt   int // the offset up to which lines are counted
}

// line returns the line where the last token ends. Offsets only grow.
func (r *jsonReader) line() int {
	offset := min(int(r.decoder.InputOffset()), len(r.data))
	r.seenLine += bytes.Count(r.data[r.seenAt:offset], []byte{'\n'})
	r.seenAt = offset
	return r.seenLine + 1
}

func (r *jsonReader) next(depth int) (*Node, error) {
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	out := &Node{Line: r.line(), Kind: Scalar}
	switch t := token.(type) {
	case json.Delim:
		return out, r.composite(out, t, depth)
	case json.Number:
		v, ok := parseNumber(t)
		if !ok {
			return nil, errors.New("a number is too large") // not which one: it may be a Secret
		}
		out.Value = v
	default:
		out.Value = t
	}
	return out, nil
}

// composite reads an object or an array, and its end.
func (r *jsonReader) composite(out *Node, delim json.Delim, depth int) error {
	r.open++
	read := r.elements
	out.Kind = Sequence
	if delim == '{' {
		out.Kind, read = Mapping, r.members
	}
	if err := read(out, depth+1); err != nil {
		return err
	}
	_, err := r.decoder.Token()
	r.open--
	return err
}

func (r *jsonReader) elements(out *Node, depth int) error {
	for r.decoder.More() {
		item, err := r.next(depth)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, item)
	}
	return nil
}

func (r *jsonReader) members(out *Node, depth int) error {
	seen := map[string]int{}
	for r.decoder.More() {
		name, err := r.next(depth) // the decoder accepts only strings here
		if err != nil {
			return err
		}
		value, err := r.next(depth)
		if err != nil {
			return err
		}
		text, _ := name.Text()
		if first, dup := seen[text]; dup {
			r.problems.Add(r.at.At(name.Line), "duplicate key %q, first at line %d", text, first)
			continue
		}
		seen[text] = name.Line
		out.Keys = append(out.Keys, name)
		out.Items = append(out.Items, value)
	}
	return nil
}
