package reconcile

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// What a change of an object means (DESIGN 6.5) is decided here, from metadata
// alone, so that a change which is not ours to put right costs no request. The
// API server keeps a record of who set which field (managedFields): whoever
// changes or removes a field that we set takes it out of our entries. While those
// are the same, down to their times, nothing of ours was changed, however often
// others write a status, or fields that no bundle names.

// placedWithFields is placedAs with the fields that we own.
func placedWithFields(live *kube.Object, form string) placed {
	return placed{uid: live.GetUID(), version: live.GetResourceVersion(), form: form, own: ownership.Own(live)}
}

// news is what a watch, or a list that takes its place, tells of an object.
type news struct {
	key     applyset.Key
	obj     *kube.Object // nil: a list does not have it any more
	gone    bool
	version string // of the change; of the list, where obj is nil
}

// finding says what news mean.
type finding int

const (
	findOld     finding = iota + 1 // known already: our own write, or older than what is known
	findAside                      // somebody changed what is not ours
	findWaiting                    // it is being deleted; its end will be news again
	findDrift                      // it may have to be put back: one apply tells, and does it
	findBeyond                     // one apply is not enough: a full pass is due
)

// kept is an object that is kept in place.
type kept struct {
	key    applyset.Key
	want   wanted        // of an object of the bundle or the fence
	where  kube.Resource // where it is kept
	parent bool          // it is the set's parent, and want is empty
	placed placed

	news *news // the newest that nothing was done about yet
	busy bool  // a repair is under way
}

// stale reports whether n tells nothing that it.placed does not know.
func (it *kept) stale(n *news) bool {
	version := n.version
	if n.obj != nil {
		version = n.obj.GetResourceVersion()
	}
	if n.gone && n.obj != nil && n.obj.GetUID() == it.placed.uid {
		return false
	}
	// The end of another object of its name is old where that was an earlier one,
	// and not where it took the place of the one that was held.
	return !newer(version, it.placed.version)
}

// newer reports whether a was written after b, two resource versions of one
// object. The API server's are numbers that grow (KEP-5504); what is no number
// is newer if it differs, which costs a look.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA != nil || errB != nil {
		return a != b
	}
	return x > y
}

// judgeNews says what n means for an object of the bundle or the fence, where
// this leader's content has the given epoch.
func judgeNews(it *kept, n *news, epoch int64) finding {
	switch {
	case it.stale(n):
		return findOld
	case n.gone && isDefinition(it.key.GroupKind):
		return findBeyond // all that was in it went with it
	case n.gone:
		return findDrift
	case n.obj.GetDeletionTimestamp() != nil:
		return findWaiting
	}
	stamped, whole := applyset.ReadStamp(n.obj.GetAnnotations())
	switch {
	case stamped.Epoch > epoch:
		return findBeyond // of a newer leader, or garbage: it has to be decided anew
	case whole && n.obj.GetUID() == it.placed.uid && ownership.Own(n.obj) == it.placed.own && metadataStands(it.want, n.obj):
		return findAside
	}
	return findDrift
}

// metadataStands reports whether labels, annotations and form are those wanted.
// managedFields show who wrote them, but not a second write under our own name
// within one second.
func metadataStands(w wanted, live *kube.Object) bool {
	return live.GetAnnotations()[bundle.AnnotationForm] == w.form &&
		ownership.MetadataInPlace(w.obj, live)
}

// judgeParentNews says what n means for the parent, which a finished pass left
// with r and c.
func judgeParentNews(it *kept, n *news, s applyset.Set, r applyset.MarkData, c applyset.Contents) finding {
	switch {
	case it.stale(n):
		return findOld
	case n.gone:
		return findDrift
	case n.obj.GetDeletionTimestamp() != nil:
		return findWaiting
	}
	p := applyset.DecodeParent(n.obj)
	want, err := p.With(s, r, c)
	switch {
	case err != nil || p.Known && !p.Mark.SameContent(r):
		return findBeyond // what may be in the API is not for us alone to say
	case p.Matches(want, r):
		return findAside
	}
	return findDrift
}

// stranger reports whether news of an object that the bundle lacks ask for a full
// pass: it is new, and of the set, as what a former leader created late is.
func stranger(n *news, known map[types.UID]bool) bool {
	return !n.gone && !known[n.obj.GetUID()] && isMember(n.obj) && mayPrune(n.key.GroupKind, n.obj)
}
