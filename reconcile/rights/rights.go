// Package rights derives from a bundle which rights its leader needs in the Kubernetes API, and
// writes them as roles of RBAC (docs/bundles.md#rights). It is pure: it sends no request and
// starts no goroutine. The rights that Lockstep itself needs with any bundle are in
// deploy/kubeadm/cluster.
package rights

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// purpose is why a rule is needed. It orders the rules of a role.
type purpose int

const (
	find      purpose = iota + 1 // the objects of the set, by their label
	create                       // objects that are missing
	change                       // objects of these names
	guarded                      // verbs that certain kinds demand of their writers
	aggregate                    // whether another server handles a group
)

// rule is the right to some requests about one resource.
type rule struct {
	ruleKey
	names []string // sorted; empty: not restricted
}

// Rights are the rights that a leader needs for one bundle. They are never empty.
type Rights struct {
	// Guessed are kinds whose resource is a guess from their name, because neither the bundle
	// nor a cluster defines it. If the guess is wrong, these rights are too.
	Guessed []Guess

	bundle  string // name and version, for people
	name    string // of the bundle
	objects int
	rules   []rule // in canonical order
}

// Guess is a kind with the resource that is its plural by rule.
type Guess struct{ APIVersion, Kind, Resource string }

// Warning warns of a kind whose rights may have the wrong name.
func (g Guess) Warning(remedy string) string {
	return fmt.Sprintf("the resource of %s %s is a guess, %s: its CRD is not in the bundle. %s", g.APIVersion, g.Kind, g.Resource, remedy)
}

// Resolve asks an API server for the resource of a kind, like "widgets". found: it serves
// the kind.
type Resolve func(apiVersion, kind string) (resource string, found bool, err error)

// Of returns the rights for a bundle. resolve is asked for kinds that are neither
// Kubernetes' own nor defined in the bundle; nil: their resource is guessed. The error is
// one of resolve.
func Of(b *bundle.Bundle, resolve Resolve) (Rights, error) {
	c := collector{
		resources: resources{defined: definedBy(b), resolve: resolve},
		rules:     map[ruleKey]map[string]bool{},
		raisesA:   b.Constraints.MinAPIServer != protocol.Release{},
	}
	for _, obj := range b.Objects {
		if err := c.object(obj); err != nil {
			return Rights{}, err
		}
	}
	return Rights{
		Guessed: c.resources.guessed, bundle: b.Name + " " + b.Version.String(), name: b.Name, objects: len(b.Objects),
		rules: c.sorted(),
	}, nil
}

// Right is the right to send one kind of request. Name is empty for all names, Namespace for
// all namespaces and for objects without one.
type Right = kube.Right

// Required returns each right by itself, as one asks an API server for it.
func (r Rights) Required() []Right {
	var out []Right
	for _, one := range r.rules {
		names := one.names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			for _, verb := range one.verbs() {
				out = append(out, Right{Verb: verb, Group: one.group, Resource: one.resource, Namespace: one.namespace, Name: name})
			}
		}
	}
	return out
}

// ruleKey contains the common fields of rules whose names are joined.
type ruleKey struct {
	purpose         purpose
	namespace       string // of the Role; empty: of the ClusterRole
	group, resource string
	deletes         bool   // of change: delete is among the verbs
	verb            string // of guarded: the only one
}

// verbs returns the verbs that the requests of a pass need (docs/bundles.md#rights).
func (k ruleKey) verbs() []string {
	switch {
	case k.purpose == find:
		return []string{"list", "watch"}
	case k.purpose == create:
		return []string{"create"}
	case k.purpose == guarded:
		return []string{k.verb}
	case k.purpose == aggregate:
		return []string{"get"}
	case k.deletes:
		return []string{"get", "patch", "delete"}
	}
	return []string{"get", "patch"}
}

// collector gathers the rules of all objects.
type collector struct {
	resources resources
	rules     map[ruleKey]map[string]bool // with their names
	raisesA   bool
}

// add adds a rule for one name; empty: for all.
func (c *collector) add(k ruleKey, name string) {
	if c.rules[k] == nil {
		c.rules[k] = map[string]bool{}
	}
	if name != "" {
		c.rules[k][name] = true
	}
}

// object adds the rules for one object.
func (c *collector) object(obj *kube.Object) error {
	gvk := obj.GroupVersionKind()
	name, err := c.resources.of(gvk)
	if err != nil {
		return err
	}
	namespace := roleNamespace(obj.GetNamespace())
	own := ruleKey{namespace: namespace, group: gvk.Group, resource: name}
	everywhere := own
	// A label selector finds them in all namespaces at once.
	everywhere.purpose, everywhere.namespace = find, ""
	c.add(everywhere, "")
	own.purpose = create
	c.add(own, "")
	own.purpose, own.deletes = change, plan.MayDelete(gvk.GroupKind(), obj.GetAnnotations())
	c.add(own, obj.GetName())
	if c.raisesA && !kube.BuiltIn(gvk.Group) {
		c.add(ruleKey{purpose: aggregate, group: "apiregistration.k8s.io", resource: "apiservices"}, gvk.Version+"."+gvk.Group)
	}
	return c.guarded(obj, namespace)
}

// roleNamespace returns the namespace of the Role for objects of a namespace; empty: they
// need the ClusterRole. A Role can only be created in a namespace that exists, and others
// than these may be created by the leader itself.
func roleNamespace(namespace string) string {
	if slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"}, namespace) {
		return namespace
	}
	return ""
}

// sorted returns the rules in canonical order.
func (c *collector) sorted() []rule {
	var out []rule
	for k, names := range c.rules {
		out = append(out, rule{ruleKey: k, names: slices.Sorted(maps.Keys(names))})
	}
	sorting.By(out, func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.purpose, b.purpose), cmp.Compare(a.group, b.group),
			cmp.Compare(a.resource, b.resource), slices.Compare(a.verbs(), b.verbs()))
	})
	return out
}

// definedBy returns the resources of the kinds that CRDs of a bundle define.
func definedBy(b *bundle.Bundle) map[schema.GroupKind]string {
	out := map[schema.GroupKind]string{}
	for _, obj := range b.Objects {
		if kind, plural := bundle.Defines(obj), text(obj, "spec", "names", "plural"); kind.Kind != "" && plural != "" {
			out[kind] = plural
		}
	}
	return out
}
