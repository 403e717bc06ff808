package bundle

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// key is what makes two manifests the same object. The version does not: an
// object has one, whatever version it is written in.
type key struct {
	group, kind, namespace, name string
}

// String reads `ClusterRole "x"` or `ConfigMap "ns/x"`.
func (k key) String() string {
	name := k.name
	if k.namespace != "" {
		name = k.namespace + "/" + k.name
	}
	return fmt.Sprintf("%s %q", k.kind, name)
}

type object struct {
	key key
	obj *unstructured.Unstructured
}

// manifest takes one document: an object, or a List of them.
func (l *loader) manifest(at place, root *node) {
	if root.kind != mapping {
		l.problems.add(at, "is not an object: a manifest is a mapping with apiVersion, kind and metadata")
		return
	}
	if kind, _ := root.get("kind").text(); kind == "List" {
		l.list(at, root)
		return
	}
	c := checker{problems: l.problems, at: at, root: root}
	k, ok := c.check()
	if first, dup := l.seen[k]; ok && dup {
		l.problems.add(at, "%s is defined twice, first at %s", k, first)
		return
	}
	if !ok {
		return
	}
	l.seen[k] = at
	l.objects = append(l.objects, object{key: k, obj: strip(root)})
}

// list flattens `kind: List`, of lists too.
func (l *loader) list(at place, root *node) {
	if v, _ := root.get("apiVersion").text(); v != "v1" {
		l.problems.add(at, "a List has apiVersion v1")
	}
	for _, k := range root.keys {
		if name, _ := k.text(); name != "apiVersion" && name != "kind" && name != "items" && name != "metadata" {
			l.problems.add(at.at(k.line), "unknown field %q of a List", name)
		}
	}
	items := root.get("items")
	if items == nil || items.kind != sequence {
		l.problems.add(at, "a List needs items")
		return
	}
	for _, item := range items.items {
		l.manifest(at.at(item.line), item)
	}
}

// checker looks at one object.
type checker struct {
	problems *problems
	at       place
	root     *node
	bad      bool
}

func (c *checker) add(line int, format string, args ...any) {
	c.bad = true
	c.problems.add(c.at.at(line), format, args...)
}

// check returns the object's key, and whether all is well.
func (c *checker) check() (key, bool) {
	apiVersion := c.required(c.root, "", "apiVersion")
	kind := c.required(c.root, "", "kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		c.add(c.root.line, "apiVersion: %v", err)
	}
	if gv.Group == "lockstep.dev" && kind == headerKind {
		c.add(c.root.line, "kind %s belongs in %s at the top of the bundle", headerKind, headerFile)
	}
	k := key{group: gv.Group, kind: kind}
	metadata := c.root.get("metadata")
	if metadata == nil || metadata.kind != mapping {
		c.add(c.root.line, "lacks metadata with a name")
		return k, false
	}
	c.metadata(metadata, &k)
	c.content()
	return k, !c.bad
}

// required returns a field's text, which may not be empty.
func (c *checker) required(n *node, parent, field string) string {
	value := n.get(field)
	s, ok := value.text()
	if value != nil && !ok || ok && s == "" {
		c.add(value.line, "%s%s has to be a string that is not empty", parent, field)
	} else if value == nil {
		c.add(n.line, "lacks %s%s", parent, field)
	}
	return s
}

// serverOnly are the fields of metadata that a server sets. To apply them would
// fail in ways that are hard to read.
func serverOnly() []string {
	return []string{"uid", "resourceVersion", "generation", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}
}

func (c *checker) metadata(n *node, k *key) {
	if g := n.get("generateName"); g != nil {
		c.add(g.line, "generateName cannot be used: each object needs the same name every time")
	}
	k.name = c.required(n, "metadata.", "name")
	if ns := n.get("namespace"); ns != nil {
		k.namespace = c.required(n, "metadata.", "namespace")
	}
	for _, field := range serverOnly() {
		if v := n.get(field); v != nil && (v.kind != scalar || v.value != nil) {
			c.add(v.line, "metadata.%s is set by the server; remove it", field)
		}
	}
	c.strings(n, "labels", reservedLabels())
	c.strings(n, "annotations", StampAnnotations()) // one that is set could pose as another content
}

// strings checks labels or annotations.
func (c *checker) strings(metadata *node, field string, reserved []string) {
	n := metadata.get(field)
	if n == nil || n.kind == scalar && n.value == nil {
		return
	}
	if n.kind != mapping {
		c.add(n.line, "metadata.%s has to be a mapping", field)
		return
	}
	for i, k := range n.keys {
		name, _ := k.text()
		if _, ok := n.items[i].text(); !ok {
			c.add(k.line, "metadata.%s: the value of %q has to be a string; put it in quotes", field, name)
		}
		if slices.Contains(reserved, name) {
			c.add(k.line, "metadata.%s: %q is written by Lockstep itself; remove it", field, name)
		}
	}
}

// content refuses an object that says nothing but a status, which is the
// server's: it was cut out of a cluster, and half of it is missing.
func (c *checker) content() {
	status, rest := c.root.get("status"), false
	for _, k := range c.root.keys {
		switch name, _ := k.text(); name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			rest = true
		}
	}
	if status != nil && !rest && status.kind == mapping && len(status.keys) > 0 {
		c.add(status.line, "has a status and nothing else: the status is the server's")
	}
}

// strip makes the object, without what is null in an export.
func strip(root *node) *unstructured.Unstructured {
	content, _ := root.plain().(map[string]any) // a mapping, as checked
	obj := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if obj.GetAPIVersion() == "v1" && obj.GetKind() == "Secret" {
		storedData(content)
	}
	return obj
}

// storedData writes the stringData of a Secret as data, which is what the server
// makes of it, and wins over the same key there. A set that is applied as
// stringData belongs to nobody once it is data: a key that a later bundle drops
// would live on for ever. What is no string is left for the server to refuse.
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
