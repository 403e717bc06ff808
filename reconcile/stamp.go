package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// maxEpoch is the highest content epoch that can be written. What is above it, or
// no number, is garbage.
const maxEpoch = 1 << 53

// believable is the highest content epoch that is taken from an object. Epochs
// count changes of content, so who bears a higher one did not get it from a
// leader. It is far below maxEpoch: a leader that has to go above it can go on
// counting, and cannot be locked out.
const believable = 1 << 52

// stamp is what an object says of its origin.
type stamp struct {
	epoch   int64
	release protocol.Release
	minAPI  protocol.Release // the A of that content
}

// stampOf is the stamp that content writes.
func stampOf(c protocol.Content) stamp {
	return stamp{epoch: c.Epoch, release: c.Release, minAPI: c.Constraints.MinApiserver}
}

// readStamp reads the stamp of an object; ok says whether it is a whole one.
func readStamp(annotations map[string]string) (s stamp, ok bool) {
	var err error
	if s.epoch, ok = parseEpoch(annotations[bundle.AnnotationContentEpoch]); !ok {
		return stamp{}, false
	}
	if s.release, err = protocol.ParseRelease(annotations[bundle.AnnotationRelease]); err != nil {
		return stamp{epoch: s.epoch}, false
	}
	if s.minAPI, err = protocol.ParseRelease(annotations[bundle.AnnotationMinAPIServerRelease]); err != nil {
		return stamp{epoch: s.epoch, release: s.release}, false
	}
	return s, true
}

// bearsNewer reports whether an object bears a higher content epoch than own, and
// which.
func bearsNewer(annotations map[string]string, own int64) (int64, bool) {
	epoch, ok := parseEpoch(annotations[bundle.AnnotationContentEpoch])
	return epoch, ok && epoch > own && epoch <= believable
}

// parseEpoch takes what put writes and nothing else: the fence has to agree on
// what an epoch is.
func parseEpoch(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxEpoch || strconv.FormatInt(n, 10) != s {
		return 0, false
	}
	return n, true
}

// put writes the stamp, and the form it belongs to.
func (s stamp) put(obj *kube.Object, form string) {
	annotations := obj.GetAnnotations() // a copy
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[bundle.AnnotationContentEpoch] = strconv.FormatInt(s.epoch, 10)
	annotations[bundle.AnnotationRelease] = s.release.String()
	annotations[bundle.AnnotationMinAPIServerRelease] = s.minAPI.String()
	annotations[bundle.AnnotationForm] = form
	obj.SetAnnotations(annotations)
}

// formOf is the form of the manifest with that hash, which bears the set's label
// besides.
func formOf(manifest bundle.Hash, s set) string {
	sum := sha256.Sum256(append(manifest[:], s.id()...))
	return hex.EncodeToString(sum[:16])
}
