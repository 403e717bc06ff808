package strict

import (
	"encoding/json"
	"math"
	"strconv"
)

// Node is a value of a file with its line. YAML and JSON both become nodes, so that all
// checks are written once.
type Node struct {
	Line  int
	Value any // of a Scalar: nil, bool, int64, float64 or string
	Kind  Kind
	Keys  []*Node // of a Mapping, in the order of the file; each is a string
	Items []*Node // a Mapping's values, or a Sequence's items
}

// Kind says what a node is.
type Kind int

// The kinds of nodes.
const (
	Scalar Kind = iota + 1
	Mapping
	Sequence
)

// Limits on input. They are far above what a kube-apiserver accepts (3 MiB for an
// object), and keep hostile input from exhausting memory or stack.
const (
	MaxFileSize = 10 << 20
	MaxValues   = 1 << 18 // of one file, by its commas, colons and dashes
	maxDepth    = 200
	maxExpanded = 1 << 16 // values that the aliases of one file expand to
)

// Get returns the value of a key; nil: the key is missing.
func (n *Node) Get(name string) *Node {
	for i, k := range n.Keys {
		if k.Value == name {
			return n.Items[i]
		}
	}
	return nil
}

// Text returns the node as a string, and whether it is one.
func (n *Node) Text() (string, bool) {
	if n == nil || n.Kind != Scalar {
		return "", false
	}
	s, ok := n.Value.(string)
	return s, ok
}

// Texts are strings that several values share. In a bundle most occur hundreds of times: names of fields, kinds, verbs. A
// sidecar keeps its bundle, also while it does not lead.
type Texts map[string]any

// maxText is the length up to which strings are shared.
const maxText = 128

// shared returns the first string with that text.
func (t Texts) shared(text string) any {
	first, known := t[text]
	if !known {
		first = text
		if len(text) <= maxText {
			t[text] = first
		}
	}
	return first
}

// Plain returns the node as values of encoding/json, without fields that are
// null: a server drops those. The values share the strings in texts, and add theirs.
func (n *Node) Plain(texts Texts) any {
	switch n.Kind {
	case Mapping:
		out := make(map[string]any, len(n.Keys))
		for i, k := range n.Keys {
			name, _ := k.Text() // checked when the node was made
			name, _ = texts.shared(name).(string)
			if v := n.Items[i].Plain(texts); v != nil {
				out[name] = v
			}
		}
		return out
	case Sequence:
		out := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			out = append(out, item.Plain(texts))
		}
		return out
	case Scalar:
	}
	if text, isText := n.Value.(string); isText {
		return texts.shared(text)
	}
	return n.Value
}

// parseNumber returns a JSON number as apimachinery's decoder does, and whether it
// is in range.
func parseNumber(s json.Number) (any, bool) {
	if i, err := strconv.ParseInt(s.String(), 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(s.String(), 64)
	return positive(f), err == nil && !math.IsInf(f, 0)
}

// positive replaces -0 by 0: they are equal, but their hashes would differ.
func positive(f float64) float64 {
	if f == 0 {
		return 0
	}
	return f
}

// crowded reports whether data may contain more than MaxValues values. It does not parse, since
// the parser needs up to two kilobytes for a value of two bytes. It counts the characters that
// come before a value in YAML and in JSON.
func crowded(data []byte) bool {
	count, last := 0, byte(0)
	for i, c := range data {
		if count > MaxValues {
			return true
		}
		switch c {
		case ',', '[', '{':
			count++
		case ':', '-', '?':
			if i+1 == len(data) || isSpace(data[i+1]) || last == '"' || last == '\'' {
				count++
			}
		}
		if !isSpace(c) {
			last = c
		}
	}
	return count > MaxValues
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
