package bundle

import (
	"encoding/json"
	"math"
	"strconv"
)

// node is a value of a manifest with its line. YAML and JSON both become nodes, so
// that all checks are written once.
type node struct {
	line  int
	value any // scalar: nil, bool, int64, float64 or string
	kind  nodeKind
	keys  []*node // of a mapping, in the order of the file
	items []*node // a mapping's values, or a sequence's items
}

type nodeKind int

const (
	scalar nodeKind = iota + 1
	mapping
	sequence
)

// Limits on input. They are far above what a kube-apiserver accepts (3 MiB for an
// object), and keep hostile input from exhausting memory or stack.
const (
	maxFileSize   = 10 << 20
	maxBundleSize = 64 << 20 // of all files
	maxDepth      = 200
	maxValues     = 1 << 18 // of one file, as crowded counts them
	maxExpanded   = 1 << 16 // values that the aliases of one file expand to
)

// get returns the value of a key; nil: it has none.
func (n *node) get(name string) *node {
	for i, k := range n.keys {
		if k.value == name {
			return n.items[i]
		}
	}
	return nil
}

// text returns the node as a string, and whether it is one.
func (n *node) text() (string, bool) {
	if n == nil || n.kind != scalar {
		return "", false
	}
	s, ok := n.value.(string)
	return s, ok
}

// plain returns the node as values of encoding/json, without fields that are
// null: a server drops those.
func (n *node) plain() any {
	switch n.kind {
	case mapping:
		out := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			name, _ := k.text() // checked when the node was made
			if v := n.items[i].plain(); v != nil {
				out[name] = v
			}
		}
		return out
	case sequence:
		out := make([]any, 0, len(n.items))
		for _, item := range n.items {
			out = append(out, item.plain())
		}
		return out
	case scalar:
	}
	return n.value
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

// positive replaces -0 by 0: they are equal, and would have different hashes.
func positive(f float64) float64 {
	if f == 0 {
		return 0
	}
	return f
}

// crowded reports whether data may have more than maxValues values. It does not
// parse, since the parser needs up to two kilobytes for a value of two bytes. It
// counts the characters that come before a value in YAML and in JSON.
func crowded(data []byte) bool {
	count, last := 0, byte(0)
	for i, c := range data {
		if count > maxValues {
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
	return count > maxValues
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
