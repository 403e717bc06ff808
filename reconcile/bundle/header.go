package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/strict"
)

// The type of bundle.yaml.
const (
	headerAPIVersion = "lockstep.dev/v1"
	headerKind       = "Bundle"
)

// header reads bundle.yaml. It rejects unknown fields: without that, a misspelt
// constraint would look like one that was never set.
func (l *loader) header(at strict.Place, documents []strict.Document) {
	if len(documents) != 1 {
		l.problems.Add(at, "has %d documents, want one of kind %s", len(documents), headerKind)
		return
	}
	h := headerReader{problems: l.problems, at: documents[0].At, root: documents[0].Root}
	before := l.problems.Count()
	b := h.bundle()
	if l.problems.Count() == before {
		l.bundle = b
	}
}

// headerReader reads the fields of bundle.yaml, and adds their problems.
type headerReader struct {
	problems *strict.Problems
	at       strict.Place
	root     *strict.Node
}

func (h *headerReader) bundle() *Bundle {
	if h.root.Kind != strict.Mapping {
		h.problems.Add(h.at, "must be a mapping")
		return nil
	}
	h.known(h.root, "", "apiVersion", "kind", "metadata", "release", "minReconcilerRelease", "minApiserverRelease",
		"apiserverVersion", "prunePolicy")
	h.equals("apiVersion", headerAPIVersion)
	h.equals("kind", headerKind)
	b := &Bundle{Name: h.name(), Version: h.version()}
	b.Constraints.MinReconciler = h.release("minReconcilerRelease")
	b.Constraints.MinApiserver = h.release("minApiserverRelease")
	b.APIServer = h.apiserverVersion()
	b.PruneImmediately = h.prunePolicy()
	if err := b.Constraints.Validate(b.Version.Release); err != nil {
		h.problems.Add(h.constraintAt(b), "%v", err)
	}
	return b
}

// known adds a problem for each field that is not one of fields.
func (h *headerReader) known(n *strict.Node, parent string, fields ...string) {
	for _, k := range n.Keys {
		name, _ := k.Text()
		if !slices.Contains(fields, name) {
			h.problems.Add(h.at.At(k.Line), "unknown field %q; known are %s", parent+name, strings.Join(fields, ", "))
		}
	}
}

func (h *headerReader) equals(field, want string) {
	n := h.root.Get(field)
	if n == nil {
		h.problems.Add(h.at, "%s is missing; set it to %s", field, want)
		return
	}
	if got, ok := n.Text(); !ok || got != want {
		h.problems.Add(h.at.At(n.Line), "%s must be %s", field, want)
	}
}

func (h *headerReader) name() string {
	metadata := h.root.Get("metadata")
	if metadata == nil || metadata.Kind != strict.Mapping {
		h.problems.Add(h.at, "metadata is missing; it needs a name")
		return ""
	}
	h.known(metadata, "metadata.", "name")
	name, ok := metadata.Get("name").Text()
	if !ok || name == "" {
		h.problems.Add(h.at.At(metadata.Line), "metadata.name must be a string that is not empty")
	} else if !protocol.ValidBundleName(name) {
		h.problems.Add(h.at.At(metadata.Line),
			"metadata.name %q must have lower-case letters, digits, hyphens and dots only, a letter or a digit at both ends, and at most %d characters",
			name, protocol.MaxBundleName)
	}
	return name
}

func (h *headerReader) version() protocol.Version {
	n := h.root.Get("release")
	if n == nil {
		h.problems.Add(h.at, "release is missing; set it, like release: 1.4.0")
		return protocol.Version{}
	}
	v, err := semver.ParseVersion(h.string(n))
	if err != nil {
		h.problems.Add(h.at.At(n.Line), "release: %v", err)
	}
	return v
}

// release reads a constraint. Without one, the zero Release admits every release.
func (h *headerReader) release(field string) protocol.Release {
	n := h.root.Get(field)
	if n == nil {
		return protocol.Release{}
	}
	r, err := semver.ParseRelease(h.string(n))
	if err != nil {
		h.problems.Add(h.at.At(n.Line), "%s: %v", field, err)
	}
	return r
}

// apiserverVersion reads the version that a bundle is for. It must be text: 1.30 without quotes
// is the number 1.3.
func (h *headerReader) apiserverVersion() string {
	n := h.root.Get("apiserverVersion")
	if n == nil {
		return ""
	}
	version, ok := n.Text()
	switch {
	case !ok:
		h.problems.Add(h.at.At(n.Line), "apiserverVersion must be text, in quotes, like \"1.36\" or \"1.36.2\": without them, 1.30 is the number 1.3")
	case !protocol.ValidAPIServerVersion(version):
		h.problems.Add(h.at.At(n.Line), "apiserverVersion %q must be MAJOR.MINOR or MAJOR.MINOR.PATCH of a kube-apiserver, like \"1.36\" or \"1.36.2\"", version)
	}
	return version
}

// string returns a value as text, if it is a scalar. `release: 1.4` is a number, and the
// message about it must show it.
func (h *headerReader) string(n *strict.Node) string {
	if n.Kind != strict.Scalar || n.Value == nil {
		return ""
	}
	return fmt.Sprint(n.Value)
}

func (h *headerReader) prunePolicy() bool {
	n := h.root.Get("prunePolicy")
	if n == nil {
		return false
	}
	switch s, _ := n.Text(); s {
	case "WhenUpgraded":
	case "Immediately":
		return true
	default:
		h.problems.Add(h.at.At(n.Line), "prunePolicy must be WhenUpgraded (the default) or Immediately")
	}
	return false
}

// constraintAt is the place of the constraint that is above the release.
func (h *headerReader) constraintAt(b *Bundle) strict.Place {
	field := "minApiserverRelease"
	if b.Version.Release.Less(b.Constraints.MinReconciler) {
		field = "minReconcilerRelease"
	}
	if n := h.root.Get(field); n != nil {
		return h.at.At(n.Line)
	}
	return h.at
}
