package bundle

import (
	"encoding/json"
	"math"
	"strconv"
)

// node is a value of a manifest that knows where it stands. YAML and JSON both
// become nodes, so that all that follows is written once.
type node struct {
	line  int
	value any     // scalar: nil, bool, int64, float64 or string
	kind  kind    // what it is
	keys  []*node // of a mapping, in the order of the file
	items []*node // a mapping's values, or a sequence's items
}

type kind int

const (
	scalar kind = iota + 1
	mapping
	sequence
)

// Limits on what may be asked for. They are far above anything that an apiserver
// takes (3 MiB for an object), and keep hostile input from eating memory or
// stack.
const (
	maxFileSize   = 10 << 20
	maxBundleSize = 64 << 20 // of all files
	maxDepth      = 200
	maxValues     = 1 << 18 // of one file, as crowded counts them
	maxExpanded   = 1 << 16 // values that the aliases of one file stand for
)

// get returns the value under key, and nil where there is none.
func (n *node) get(key string) *node {
	for i, k := range n.keys {
		if k.value == key {
			return n.items[i]
		}
	}
	return nil
}

// text returns the string that the node is, if it is one.
func (n *node) text() (string, bool) {
	if n == nil || n.kind != scalar {
		return "", false
	}
	s, ok := n.value.(string)
	return s, ok
}

// plain returns the node as the values that encoding/json knows. Fields that
// are null are left out: a server drops them, and they say nothing.
func (n *node) plain() any {
	switch n.kind {
	case mapping:
		out := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			key, _ := k.text() // checked when the node was made
			if v := n.items[i].plain(); v != nil {
				out[key] = v
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

// number turns a JSON number into what apimachinery's decoder makes of it.
func number(s json.Number) (any, bool) {
	if i, err := strconv.ParseInt(s.String(), 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(s.String(), 64)
	return positive(f), err == nil && !math.IsInf(f, 0)
}

// positive makes 0 of -0: they are written differently, and say the same.
func positive(f float64) float64 {
	if f == 0 {
		return 0
	}
	return f
}

// crowded reports whether data may hold more values than maxValues. It counts
// what has to stand before a value, in YAML and in JSON, without parsing: the
// parser takes up to two kilobytes for a value of two bytes.
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
