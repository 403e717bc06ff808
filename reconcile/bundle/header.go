package bundle

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/protocol"
)

// headerKind is the kind of bundle.yaml.
const headerKind = "Bundle"

// headerFields are the fields of bundle.yaml.
type headerFields struct {
	APIVersion string `field:"apiVersion" required:"set it to lockstep.dev/v1" want:"lockstep.dev/v1"`
	Kind       string `field:"kind" required:"set it to Bundle" want:"Bundle"`
	Metadata   struct {
		Name string `field:"name" required:""`
	} `field:"metadata" required:"it needs a name"`
	// The releases may be numbers: the message about `release: 1.4` must show it.
	Release       *strict.Node `field:"release" required:"set it, like release: 1.4.0"`
	MinReconciler *strict.Node `field:"minReconcilerRelease"`
	MinAPIServer  *strict.Node `field:"minApiserverRelease"`
	APIServer     *strict.Node `field:"apiserverVersion"`
	PrunePolicy   *strict.Node `field:"prunePolicy"`
}

// header reads bundle.yaml. It rejects unknown fields: without that, a misspelt
// constraint would look like one that was never set.
func (l *loader) header(at strict.Place, documents []strict.Document) {
	if len(documents) != 1 {
		l.problems.Add(at, "has %d documents, want one of kind %s", len(documents), headerKind)
		return
	}
	before := l.problems.Count()
	var in headerFields
	f, ok := strict.Decoder{Problems: l.problems}.Decode(documents[0], "", &in)
	if !ok {
		return
	}
	if b := l.convert(f, in); l.problems.Count() == before {
		l.bundle = b
	}
}

// convert returns the bundle with the fields of its header, and adds their problems.
func (l *loader) convert(f strict.Fields, h headerFields) *Bundle {
	b := &Bundle{Name: h.Metadata.Name}
	if b.Name != "" && !protocol.ValidBundleName(b.Name) {
		f.In("metadata").Add("name", "%q must have lower-case letters, digits, hyphens and dots only, a letter or a digit at both ends, and at most %d characters",
			b.Name, protocol.MaxBundleName)
	}
	var err error
	if h.Release != nil {
		if b.Version, err = semver.ParseVersion(scalar(h.Release)); err != nil {
			f.Add("release", ": %v", err)
		}
	}
	b.Constraints.MinReconciler = release(f, "minReconcilerRelease", h.MinReconciler)
	b.Constraints.MinAPIServer = release(f, "minApiserverRelease", h.MinAPIServer)
	b.APIServer = apiserverVersion(f, h.APIServer)
	b.PruneImmediately = prunePolicy(f, h.PrunePolicy)
	if err := b.Constraints.Validate(b.Version.Release); err != nil {
		above := "minApiserverRelease"
		if b.Version.Release.Less(b.Constraints.MinReconciler) {
			above = "minReconcilerRelease"
		}
		l.problems.Add(f.Place(above), "%v", err)
	}
	return b
}

// release returns a constraint. Without one, the zero Release admits every release.
func release(f strict.Fields, field string, n *strict.Node) protocol.Release {
	if n == nil {
		return protocol.Release{}
	}
	r, err := semver.ParseRelease(scalar(n))
	if err != nil {
		f.Add(field, ": %v", err)
	}
	return r
}

// scalar returns a value as text, if it is a scalar.
func scalar(n *strict.Node) string {
	if n.Kind != strict.Scalar || n.Value == nil {
		return ""
	}
	return fmt.Sprint(n.Value)
}

// apiserverVersion returns the version that a bundle is for. It must be text: 1.30 without quotes
// is the number 1.3.
func apiserverVersion(f strict.Fields, n *strict.Node) string {
	if n == nil {
		return ""
	}
	version, ok := n.Text()
	switch {
	case !ok:
		f.Add("apiserverVersion", "must be text, in quotes, like \"1.36\" or \"1.36.2\": without them, 1.30 is the number 1.3")
	case !validAPIServerVersion(version):
		f.Add("apiserverVersion", "%q must be MAJOR.MINOR or MAJOR.MINOR.PATCH of a kube-apiserver, like \"1.36\" or \"1.36.2\"", version)
	}
	return version
}

// validAPIServerVersion reports whether a version is MAJOR.MINOR or MAJOR.MINOR.PATCH:
// numbers without leading zeros and without a v.
func validAPIServerVersion(version string) bool {
	parts := strings.Split(version, ".")
	if len(version) > 32 || len(parts) < 2 || len(parts) > 3 {
		return false
	}
	for _, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" || len(p) > 1 && p[0] == '0' {
			return false
		}
	}
	return true
}

func prunePolicy(f strict.Fields, n *strict.Node) bool {
	if n == nil {
		return false
	}
	switch s, _ := n.Text(); s {
	case "WhenUpgraded":
	case "Immediately":
		return true
	default:
		f.Add("prunePolicy", "must be WhenUpgraded (the default) or Immediately")
	}
	return false
}
