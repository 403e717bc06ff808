package bundle

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objectKey identifies an object. The version is no part of it: an object is the
// same in each version of its kind.
type objectKey struct {
	group, kind, namespace, name string
}

// String reads `ClusterRole "x"` or `ConfigMap "ns/x"`.
func (k objectKey) String() string {
	name := k.name
	if k.namespace != "" {
		name = k.namespace + "/" + k.name
	}
	return fmt.Sprintf("%s %q", k.kind, name)
}

// object is a manifest that passed all checks.
type object struct {
	key objectKey
	obj *unstructured.Unstructured
	at  place
}

// manifest reads one document: an object, or a List of objects.
func (l *loader) manifest(at place, root *node) {
	if root.kind != mapping {
		l.problems.add(at, "is not an object; a manifest is a mapping with apiVersion, kind and metadata")
		return
	}
	if text, _ := root.get("kind").text(); text == "List" {
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
	l.objects = append(l.objects, object{key: k, obj: strip(root), at: at})
}

// list reads the items of a `kind: List`. A List may contain Lists.
func (l *loader) list(at place, root *node) {
	if v, _ := root.get("apiVersion").text(); v != "v1" {
		l.problems.add(at, "apiVersion of a List must be v1")
	}
	for _, k := range root.keys {
		if name, _ := k.text(); name != "apiVersion" && name != "kind" && name != "items" && name != "metadata" {
			l.problems.add(at.at(k.line), "unknown field %q of a List", name)
		}
	}
	items := root.get("items")
	if items == nil || items.kind != sequence {
		l.problems.add(at, "items of the List are missing")
		return
	}
	for _, item := range items.items {
		l.manifest(at.at(item.line), item)
	}
}

// checker checks one object.
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

// check returns the key of the object, and whether the object has no problems.
func (c *checker) check() (objectKey, bool) {
	apiVersion := c.required(c.root, "", "apiVersion")
	objectKind := c.required(c.root, "", "kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		c.add(c.root.line, "apiVersion: %v", err)
	}
	if gv.Group == "lockstep.dev" && objectKind == headerKind {
		c.add(c.root.line, "kind %s belongs in %s, at the root of the bundle", headerKind, headerFile)
	}
	k := objectKey{group: gv.Group, kind: objectKind}
	metadata := c.root.get("metadata")
	if metadata == nil || metadata.kind != mapping {
		c.add(c.root.line, "metadata is missing; it needs a name")
		return k, false
	}
	c.metadata(metadata, &k)
	c.content()
	return k, !c.bad
}

// required returns the text of a field, which must not be empty.
func (c *checker) required(n *node, parent, field string) string {
	value := n.get(field)
	s, ok := value.text()
	if value != nil && !ok || ok && s == "" {
		c.add(value.line, "%s%s must be a string that is not empty", parent, field)
	} else if value == nil {
		c.add(n.line, "%s%s is missing", parent, field)
	}
	return s
}

// serverOnly returns the fields of metadata that only the server sets. An apply
// with one of them fails with a message that is hard to understand.
func serverOnly() []string {
	return []string{"uid", "resourceVersion", "generation", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}
}

func (c *checker) metadata(n *node, k *objectKey) {
	if g := n.get("generateName"); g != nil {
		c.add(g.line, "generateName cannot be used: an object needs the same name in every pass")
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
	c.strings(n, "annotations", StampAnnotations()) // with them it could pretend to be of another content
}

// strings checks labels or annotations.
func (c *checker) strings(metadata *node, field string, reserved []string) {
	n := metadata.get(field)
	if n == nil || n.kind == scalar && n.value == nil {
		return
	}
	if n.kind != mapping {
		c.add(n.line, "metadata.%s must be a mapping", field)
		return
	}
	for i, k := range n.keys {
		name, _ := k.text()
		if _, ok := n.items[i].text(); !ok {
			c.add(k.line, "metadata.%s: the value of %q must be a string; put it in quotes", field, name)
		}
		if slices.Contains(reserved, name) {
			c.add(k.line, "metadata.%s: %q is written by Lockstep itself; remove it", field, name)
		}
	}
}

// content rejects an object with a status and nothing else. It was copied out of a
// cluster, without its spec; only the server writes a status.
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
		c.add(status.line, "has a status and nothing else; only the server writes a status")
	}
}

// strip returns the object, without the null creationTimestamp of exports.
func strip(root *node) *unstructured.Unstructured {
	content, _ := root.plain().(map[string]any) // a mapping, as checked
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
