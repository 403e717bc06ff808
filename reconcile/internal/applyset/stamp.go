package applyset

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Stamp is in the annotations of an object. It names the content that brought the present form
// (docs/protocol-objects.md#stale-writes).
type Stamp struct {
	Epoch   int64
	Release protocol.Release
	MinAPI  protocol.Release // the A of that content
}

// StampOf returns the stamp that writes of content c carry.
func StampOf(c protocol.Content) Stamp {
	return Stamp{Epoch: c.Epoch, Release: c.Release, MinAPI: c.Constraints.MinAPIServer}
}

// ReadStamp reads the stamp in an object's annotations. ok is false where the
// stamp is missing or a part of it cannot be parsed; the parts before that one
// are set.
func ReadStamp(obj *kube.Object) (s Stamp, ok bool) {
	var err error
	if s.Epoch, ok = ParseEpoch(kube.Annotation(obj, bundle.AnnotationContentEpoch)); !ok {
		return Stamp{}, false
	}
	if s.Release, err = semver.ParseRelease(kube.Annotation(obj, bundle.AnnotationRelease)); err != nil {
		return Stamp{Epoch: s.Epoch}, false
	}
	if s.MinAPI, err = semver.ParseRelease(kube.Annotation(obj, bundle.AnnotationMinAPIServerRelease)); err != nil {
		return Stamp{Epoch: s.Epoch, Release: s.Release}, false
	}
	return s, true
}

// NewerEpoch returns the content epoch in an object's annotations, and whether it
// is one and above epoch.
func NewerEpoch(obj *kube.Object, epoch int64) (int64, bool) {
	have, ok := ParseEpoch(kube.Annotation(obj, bundle.AnnotationContentEpoch))
	return have, ok && have > epoch
}

// ParseEpoch accepts the epochs that Put writes and nothing else: it must agree with the epoch
// policy.
func ParseEpoch(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || !protocol.IsContentEpoch(n) || strconv.FormatInt(n, 10) != s {
		return 0, false
	}
	return n, true
}

// Put writes the stamp on obj, and the form that it belongs to.
func (s Stamp) Put(obj *kube.Object, form string) {
	annotations := obj.GetAnnotations() // a copy
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[bundle.AnnotationContentEpoch] = strconv.FormatInt(s.Epoch, 10)
	annotations[bundle.AnnotationRelease] = s.Release.String()
	annotations[bundle.AnnotationMinAPIServerRelease] = s.MinAPI.String()
	annotations[bundle.AnnotationForm] = form
	obj.SetAnnotations(annotations)
}

// FormOf returns the form of a manifest with that hash: the manifest and the
// label of the set s.
func FormOf(manifest bundle.Hash, s Set) string {
	sum := sha256.Sum256(append(manifest[:], s.ID()...))
	return hex.EncodeToString(sum[:16])
}
