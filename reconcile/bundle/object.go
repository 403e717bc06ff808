package bundle

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

// Key identifies an object. The version is no part of it: an object is the
// same in each version of its kind.
type Key struct {
	schema.GroupKind
	Namespace, Name string
}

// String reads `ClusterRole "x"` or `ConfigMap "ns/x"`.
func (k Key) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + k.Name
	}
	return fmt.Sprintf("%s %q", k.Kind, name)
}

// Compare orders keys by group, kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Group, o.Group), cmp.Compare(k.Kind, o.Kind),
		cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// object is a manifest that passed all checks.
type object struct {
	key Key
	obj *unstructured.Unstructured
	at  strict.Place
}

// manifest reads one document: an object, or a List of objects.
func (l *loader) manifest(at strict.Place, root *strict.Node) {
	if root.Kind != strict.Mapping {
		l.problems.Add(at, "is not an object; a manifest is a mapping with apiVersion, kind and metadata")
		return
	}
	if text, _ := root.Get("kind").Text(); text == "List" {
		l.list(at, root)
		return
	}
	c := checker{problems: l.problems, at: at, root: root}
	k, ok := c.check()
	if first, dup := l.seen[k]; ok && dup {
		l.problems.Add(at, "%s is defined twice, first at %s", k, first)
		return
	}
	if !ok {
		return
	}
	l.seen[k] = at
	l.objects = append(l.objects, object{key: k, obj: strip(root, l.texts), at: at})
}

// list reads the items of a `kind: List`. A List may contain Lists.
func (l *loader) list(at strict.Place, root *strict.Node) {
	if v, _ := root.Get("apiVersion").Text(); v != "v1" {
		l.problems.Add(at, "apiVersion of a List must be v1")
	}
	for _, k := range root.Keys {
		if name, _ := k.Text(); name != "apiVersion" && name != "kind" && name != "items" && name != "metadata" {
			l.problems.Add(at.At(k.Line), "unknown field %q of a List", name)
		}
	}
	items := root.Get("items")
	if items == nil || items.Kind != strict.Sequence {
		l.problems.Add(at, "items of the List are missing")
		return
	}
	for _, item := range items.Items {
		l.manifest(at.At(item.Line), item)
	}
}

// checker checks one object.
type checker struct {
	problems *strict.Problems
	at       strict.Place
	root     *strict.Node
	bad      bool
}

func (c *checker) add(line int, format string, args ...any) {
	c.bad = true
	c.problems.Add(c.at.At(line), format, args...)
}

// check returns the key of the object, and whether it is free of problems.
func (c *checker) check() (Key, bool) {
	apiVersion := c.required(c.root, "", "apiVersion")
	objectKind := c.required(c.root, "", "kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		c.add(c.root.Line, "apiVersion: %v", err)
	}
	if gv.Group == "lockstep.dev" && objectKind == headerKind {
		c.add(c.root.Line, "kind %s belongs in %s, at the root of the bundle", headerKind, headerFile)
	}
	k := Key{GroupKind: schema.GroupKind{Group: gv.Group, Kind: objectKind}}
	if k.GroupKind == (schema.GroupKind{Group: "kustomize.config.k8s.io", Kind: "Kustomization"}) {
		c.add(c.root.Line, "a bundle contains objects, no Kustomization: put the output of kubectl kustomize here in its place")
		return k, false
	}
	metadata := c.root.Get("metadata")
	if metadata == nil || metadata.Kind != strict.Mapping {
		c.add(c.root.Line, "metadata is missing; it needs a name")
		return k, false
	}
	c.metadata(metadata, &k)
	c.content()
	return k, !c.bad
}

// required returns the text of a field, which must not be empty.
func (c *checker) required(n *strict.Node, parent, field string) string {
	value := n.Get(field)
	s, ok := value.Text()
	if value != nil && !ok || ok && s == "" {
		c.add(value.Line, "%s%s must be a string that is not empty", parent, field)
	} else if value == nil {
		c.add(n.Line, "%s%s is missing", parent, field)
	}
	return s
}

// serverOnly returns the fields of metadata that only the server sets. An apply
// with one of them fails with a message that is hard to understand.
func serverOnly() []string {
	return []string{"uid", "resourceVersion", "generation", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}
}

func (c *checker) metadata(n *strict.Node, k *Key) {
	if g := n.Get("generateName"); g != nil {
		c.add(g.Line, "generateName cannot be used: an object needs the same name in every pass")
	}
	k.Name = c.required(n, "metadata.", "name")
	if ns := n.Get("namespace"); ns != nil {
		k.Namespace = c.required(n, "metadata.", "namespace")
	}
	for _, field := range serverOnly() {
		if v := n.Get(field); v != nil && (v.Kind != strict.Scalar || v.Value != nil) {
			c.add(v.Line, "metadata.%s is set by the server; remove it", field)
		}
	}
	c.strings(n, "labels", reservedLabels())
	c.strings(n, "annotations", StampAnnotations()) // with them it could pretend to be of another content
}

// strings checks labels or annotations.
func (c *checker) strings(metadata *strict.Node, field string, reserved []string) {
	n := metadata.Get(field)
	if n == nil || n.Kind == strict.Scalar && n.Value == nil {
		return
	}
	if n.Kind != strict.Mapping {
		c.add(n.Line, "metadata.%s must be a mapping", field)
		return
	}
	for i, k := range n.Keys {
		name, _ := k.Text()
		if _, ok := n.Items[i].Text(); !ok {
			c.add(k.Line, "metadata.%s: the value of %q must be a string; put it in quotes", field, name)
		}
		if slices.Contains(reserved, name) {
			c.add(k.Line, "metadata.%s: %q is written by Lockstep itself; remove it", field, name)
		}
	}
}

// content rejects an object with a status and nothing else. It was copied out of a
// cluster, without its spec; only the server writes a status.
func (c *checker) content() {
	status, rest := c.root.Get("status"), false
	for _, k := range c.root.Keys {
		switch name, _ := k.Text(); name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			rest = true
		}
	}
	if status != nil && !rest && status.Kind == strict.Mapping && len(status.Keys) > 0 {
		c.add(status.Line, "has a status and nothing else; only the server writes a status")
	}
}

// strip returns the object, without the null creationTimestamp of exports.
func strip(root *strict.Node, texts strict.Texts) *unstructured.Unstructured {
	content, _ := root.Plain(texts).(map[string]any) // a mapping, as checked
	obj := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if obj.GetAPIVersion() == "v1" && obj.GetKind() == "Secret" {
		storedData(content)
	}
	return obj
}

// storedData moves the stringData of a Secret to data, as the server does; it wins
// over the same key of data. We would own the keys of stringData, and no manager
// would own the data that the server made of them. A key that a later bundle drops
// would then stay for ever. A value that is not a string is left in place, and the
// server rejects it.
func storedData(secret map[string]any) {
	given, isMap := secret["stringData"].(map[string]any)
	data, _ := secret["data"].(map[string]any)
	if !isMap || secret["data"] != nil && data == nil {
		return
	}
	stored := map[string]any{}
	maps.Copy(stored, data)
	for k, v := range given {
		text, isText := v.(string)
		if !isText {
			return
		}
		stored[k] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(secret, "stringData")
	secret["data"] = stored
}
