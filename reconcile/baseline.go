package reconcile

import (
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// baseline is what a complete pass left, and what became of it since. It belongs
// to whoever has the turn.
type baseline struct {
	content  protocol.Content
	objects  map[applyset.Key]*kept
	optional map[applyset.Key]bool // wanted, but the pass could not make them
	known    map[types.UID]bool    // of the set, but not wanted
	record   applyset.MarkData     // of the parent
	contents applyset.Contents
	watched  []*watched
}

// baseline returns what a pass that is done leaves to be kept. Reading it takes a
// while with many objects, so that nobody should wait for it.
func (p *pass) baseline() *baseline {
	out := &baseline{
		content: p.work.Content, objects: map[applyset.Key]*kept{}, optional: map[applyset.Key]bool{},
		known: map[types.UID]bool{}, record: applyset.Finished(p.work.Content, p.work.LeaderEpoch), contents: p.contents(applyset.Contents{}),
	}
	for _, w := range p.wanted {
		live, in := p.found.live[w.gvk][w.key], p.plan.placed[w.key]
		if p.plan.contested[w.key] {
			out.objects[w.key] = p.quarrelled(w, live)
			continue
		}
		if live == nil || in.version != live.GetResourceVersion() {
			out.optional[w.key] = true
			continue
		}
		out.objects[w.key] = &kept{key: w.key, want: w, where: p.found.kinds[w.gvk].resource, placed: placedWithFields(live, w.form)}
	}
	for _, gvk := range kindsOf(p.wanted) {
		for k, live := range p.found.live[gvk] {
			if out.objects[k] == nil {
				out.known[live.GetUID()] = true
			}
		}
		if state := p.found.kinds[gvk]; state.served {
			out.watched = append(out.watched, &watched{
				gk: gvk.GroupKind(), resource: state.resource, version: state.version, blind: state.blind(),
				query: url.Values{"labelSelector": {p.env.set.Selector()}},
			})
		}
	}
	s := p.env.set
	out.objects[s.ParentKey()] = &kept{key: s.ParentKey(), where: applyset.ParentResource(), parent: true, placed: placedWithFields(p.parent.Object, "")}
	// The parent may have been written long ago, so that there is no
	// resourceVersion to begin with.
	out.watched = append(out.watched, &watched{
		gk: s.ParentKey().GroupKind, resource: applyset.ParentResource(), namespace: s.Namespace, whole: true,
		query: url.Values{"fieldSelector": {"metadata.name=" + s.Name}},
	})
	return out
}

// blind says why a kind that is served cannot be watched for drift; empty: it can.
func (s kindState) blind() string {
	switch {
	case s.err != nil:
		return s.err.Error()
	case !s.resource.Watchable || s.version == "":
		return "the API server cannot watch the kind " + s.resource.Kind
	}
	return ""
}

// quarrelled is an object in a fight, as the pass has left it to be put back.
func (p *pass) quarrelled(w wanted, live *kube.Object) *kept {
	n := &news{key: w.key, obj: live, gone: live == nil, version: p.found.kinds[w.gvk].version}
	if live != nil {
		n.version = live.GetResourceVersion()
	}
	return &kept{key: w.key, want: w, where: p.found.kinds[w.gvk].resource, news: n}
}

// watched is a watch of one kind, or of the parent.
type watched struct {
	gk        schema.GroupKind
	resource  kube.Resource
	namespace string // of the parent
	query     url.Values
	whole     bool   // not metadata alone: it is that of the parent
	version   string // from which on; empty: a list has to tell. Its goroutine's
	blind     string // why nothing can be heard; empty: it can
}
