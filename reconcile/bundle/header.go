package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
)

// The type of bundle.yaml.
const (
	headerAPIVersion = "lockstep.dev/v1"
	headerKind       = "Bundle"
)

// header reads bundle.yaml. It rejects unknown fields: without that, a misspelt
// constraint would look like one that was never set.
func (l *loader) header(at place, documents []document) {
	if len(documents) != 1 {
		l.problems.add(at, "has %d documents, want one of kind %s", len(documents), headerKind)
		return
	}
	h := headerReader{problems: l.problems, at: documents[0].at, root: documents[0].root}
	before := l.problems.count
	b := h.bundle()
	if l.problems.count == before {
		l.bundle = b
	}
}

// headerReader reads the fields of bundle.yaml, and adds what is wrong with them.
type headerReader struct {
	problems *problems
	at       place
	root     *node
}

func (h *headerReader) bundle() *Bundle {
	if h.root.kind != mapping {
		h.problems.add(h.at, "must be a mapping")
		return nil
	}
	h.known(h.root, "", "apiVersion", "kind", "metadata", "release", "minReconcilerRelease", "minApiserverRelease", "prunePolicy")
	h.equals("apiVersion", headerAPIVersion)
	h.equals("kind", headerKind)
	b := &Bundle{Name: h.name(), Version: h.version()}
	b.Constraints.MinReconciler = h.release("minReconcilerRelease")
	b.Constraints.MinApiserver = h.release("minApiserverRelease")
	b.PruneImmediately = h.prunePolicy()
	if err := b.Constraints.Validate(b.Version.Release); err != nil {
		h.problems.add(h.constraintAt(b), "%v", err)
	}
	return b
}

// known adds a problem for each field that is not one of fields.
func (h *headerReader) known(n *node, parent string, fields ...string) {
	for _, k := range n.keys {
		name, _ := k.text()
		if !slices.Contains(fields, name) {
			h.problems.add(h.at.at(k.line), "unknown field %q; known are %s", parent+name, strings.Join(fields, ", "))
		}
	}
}

func (h *headerReader) equals(field, want string) {
	n := h.root.get(field)
	if n == nil {
		h.problems.add(h.at, "%s is missing; set it to %s", field, want)
		return
	}
	if got, ok := n.text(); !ok || got != want {
		h.problems.add(h.at.at(n.line), "%s must be %s", field, want)
	}
}

func (h *headerReader) name() string {
	metadata := h.root.get("metadata")
	if metadata == nil || metadata.kind != mapping {
		h.problems.add(h.at, "metadata is missing; it needs a name")
		return ""
	}
	h.known(metadata, "metadata.", "name")
	name, ok := metadata.get("name").text()
	if !ok || name == "" {
		h.problems.add(h.at.at(metadata.line), "metadata.name must be a string that is not empty")
	}
	return name
}

func (h *headerReader) version() protocol.Version {
	n := h.root.get("release")
	if n == nil {
		h.problems.add(h.at, "release is missing; set it, like release: 1.4.0")
		return protocol.Version{}
	}
	v, err := semver.ParseVersion(h.string(n))
	if err != nil {
		h.problems.add(h.at.at(n.line), "release: %v", err)
	}
	return v
}

// release reads a constraint. Without one, the zero Release admits every release.
func (h *headerReader) release(field string) protocol.Release {
	n := h.root.get(field)
	if n == nil {
		return protocol.Release{}
	}
	r, err := semver.ParseRelease(h.string(n))
	if err != nil {
		h.problems.add(h.at.at(n.line), "%s: %v", field, err)
	}
	return r
}

// string returns a value as text, if it is a scalar. `release: 1.4` is a number,
// and the message about it has to show it.
func (h *headerReader) string(n *node) string {
	if n.kind != scalar || n.value == nil {
		return ""
	}
	return fmt.Sprint(n.value)
}

func (h *headerReader) prunePolicy() bool {
	n := h.root.get("prunePolicy")
	if n == nil {
		return false
	}
	switch s, _ := n.text(); s {
	case "WhenUpgraded":
	case "Immediately":
		return true
	default:
		h.problems.add(h.at.at(n.line), "prunePolicy must be WhenUpgraded (the default) or Immediately")
	}
	return false
}

// constraintAt is the place of the constraint that is above the release.
func (h *headerReader) constraintAt(b *Bundle) place {
	field := "minApiserverRelease"
	if b.Version.Release.Less(b.Constraints.MinReconciler) {
		field = "minReconcilerRelease"
	}
	if n := h.root.get(field); n != nil {
		return h.at.at(n.line)
	}
	return h.at
}
