package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Document is one document of a file, which is never empty.
type Document struct {
	At   Place
	Root *Node
}

// readYAML splits data into documents. After a syntax error it cannot read on, and
// returns the documents before it.
func readYAML(file string, data []byte, p *Problems) []Document {
	stream, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithV3Defaults())
	if err != nil {
		p.Add(Place{File: file}, "%v", err)
		return nil
	}
	var out []Document
	r := yamlReader{problems: p}
	for n := 1; ; n++ {
		r.at = Place{File: file, Document: n}
		var raw yaml.Node
		err := stream.Load(&raw)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			message, line := syntax(err)
			p.Add(r.at.At(line), "%s", message)
			return out
		}
		if root := r.document(&raw); root != nil {
			out = append(out, Document{At: r.at.At(root.Line), Root: root})
		}
	}
}

// syntax returns the message and the line of a YAML error, without the text that
// it quotes.
func syntax(err error) (message string, line int) {
	loadErr, is := errors.AsType[*yaml.LoadError](err)
	if !is {
		return err.Error(), 0
	}
	if strings.HasPrefix(loadErr.Message, "unknown anchor") { // it quotes a value that begins with *
		return "not valid YAML: an alias (*) to nothing; text that begins with * must be quoted", loadErr.Mark.Line
	}
	if strings.HasPrefix(loadErr.Message, "found character that cannot start") {
		return "not valid YAML: tabs cannot indent, and text that begins with @, ` or % must be quoted", loadErr.Mark.Line
	}
	message = "not valid YAML: " + loadErr.Message
	if loadErr.ContextMsg != "" {
		message += " (" + loadErr.ContextMsg + ")"
	}
	return message, loadErr.Mark.Line
}

// yamlReader converts YAML nodes to ours. Each alias is expanded in place, so a
// small file could use any amount of memory: the reader counts the values.
type yamlReader struct {
	problems *Problems
	at       Place
	within   int  // aliases that are being expanded
	expanded int  // values made within them
	tooLarge bool // reported once for each file
}

func (r *yamlReader) document(raw *yaml.Node) *Node {
	if len(raw.Content) == 0 {
		return nil
	}
	root := r.node(raw.Content[0], 0)
	if root == nil || r.tooLarge || root.Kind == Scalar && root.Value == nil {
		return nil
	}
	return root
}

// node returns nil if it added a problem.
func (r *yamlReader) node(raw *yaml.Node, depth int) *Node {
	if r.within > 0 {
		r.expanded++
	}
	if r.expanded > maxExpanded || depth > maxDepth {
		if !r.tooLarge {
			r.tooLarge = true
			r.problems.Add(r.at.At(raw.Line), "nested too deeply, or its aliases expand to too many values (at most %d levels and %d values)", maxDepth, maxExpanded)
		}
		return nil
	}
	if r.tooLarge {
		return nil
	}
	switch raw.Kind {
	case yaml.AliasNode:
		r.within++
		defer func() { r.within-- }()
		return r.node(raw.Alias, depth+1)
	case yaml.MappingNode:
		return r.mapping(raw, depth)
	case yaml.SequenceNode:
		return r.sequence(raw, depth)
	case yaml.ScalarNode:
		return r.scalar(raw)
	default:
	}
	r.problems.Add(r.at.At(raw.Line), "a YAML construct that manifests cannot have")
	return nil
}

func (r *yamlReader) mapping(raw *yaml.Node, depth int) *Node {
	out := &Node{Line: raw.Line, Kind: Mapping}
	seen := map[string]int{}
	for i := 0; i+1 < len(raw.Content) && !r.tooLarge; i += 2 {
		rawKey := raw.Content[i]
		name, err := r.key(rawKey)
		if err != nil {
			r.problems.Add(r.at.At(rawKey.Line), "%v", err)
			continue
		}
		if first, dup := seen[name]; dup {
			r.problems.Add(r.at.At(rawKey.Line), "duplicate key %q, first at line %d", name, first)
			continue
		}
		seen[name] = rawKey.Line
		if value := r.node(raw.Content[i+1], depth+1); value != nil {
			out.Keys = append(out.Keys, &Node{Line: rawKey.Line, Kind: Scalar, Value: name})
			out.Items = append(out.Items, value)
		}
	}
	return out
}

func (r *yamlReader) key(raw *yaml.Node) (string, error) {
	switch {
	case raw.Kind != yaml.ScalarNode:
		return "", errors.New("a key must be a string")
	case raw.ShortTag() == "!!merge":
		return "", errors.New("merge keys (<<) are not supported; write the fields out")
	case raw.ShortTag() == "!!null":
		return "", errors.New("a key is empty")
	case raw.ShortTag() != "!!str":
		return "", fmt.Errorf("the key %s must be a string; put it in quotes", raw.Value)
	}
	return raw.Value, nil
}

func (r *yamlReader) sequence(raw *yaml.Node, depth int) *Node {
	out := &Node{Line: raw.Line, Kind: Sequence}
	for _, item := range raw.Content {
		if r.tooLarge {
			break
		}
		if value := r.node(item, depth+1); value != nil {
			out.Items = append(out.Items, value)
		}
	}
	return out
}

// scalar never shows the value in a message: it may be a Secret's.
func (r *yamlReader) scalar(raw *yaml.Node) *Node {
	out := &Node{Line: raw.Line, Kind: Scalar}
	problem := ""
	switch tag := raw.ShortTag(); tag {
	case "!!null":
	case "!!str", "!!timestamp": // JSON has no type for times
		out.Value = raw.Value
	case "!!bool":
		var v bool
		if raw.Decode(&v) != nil {
			problem = "is not true or false, as its tag says"
		}
		out.Value = v
	case "!!int":
		var v int64
		if raw.Decode(&v) != nil {
			problem = "is not a whole number of 64 bits; if it is text, put it in quotes"
		}
		out.Value = v
	case "!!float":
		var v float64
		if raw.Decode(&v) != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			problem = "JSON has no such number; if it is text, put it in quotes"
		}
		out.Value = positive(v)
	case "!!binary", "!!set", "!!omap", "!!pairs":
		problem = "the tag " + tag + " cannot be used in a manifest"
	default: // not its name, which may be a value with a missing quote
		problem = "a tag that manifests cannot have; text that begins with ! must be quoted"
	}
	if problem != "" {
		r.problems.Add(r.at.At(raw.Line), "value: %s", problem)
		return nil
	}
	return out
}
