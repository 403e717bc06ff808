package bundle

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// This file checks custom resources against the CRD in the same bundle, as far as a schema is structural: types, required
// and unknown fields, enums, limits and patterns. It leaves formats, anyOf and its like, and rules in CEL to the API server,
// which `bundle diff` asks. It never refuses what an API server accepts.

// schemas are the schemas of the CRDs in a bundle, by the versions that they serve. A nil schema accepts everything.
type schemas map[schema.GroupKind]map[string]map[string]any

// Defines returns the kind that a CRD defines; the zero kind for other objects.
func Defines(obj *unstructured.Unstructured) schema.GroupKind {
	if obj.GetKind() != "CustomResourceDefinition" || obj.GroupVersionKind().Group != "apiextensions.k8s.io" {
		return schema.GroupKind{}
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

// schemas returns the schemas of all CRDs whose versions could be read.
func (b *Bundle) schemas() schemas {
	out := schemas{}
	for _, obj := range b.Objects {
		kind := Defines(obj)
		if kind.Kind == "" {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
		served := map[string]map[string]any{}
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			if on, _ := version["served"].(bool); on && name != "" {
				served[name], _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			}
		}
		if len(served) > 0 {
			out[kind] = served
		}
	}
	return out
}

// problems returns why the CRD of an object in the same bundle does not accept it.
func (s schemas) problems(obj *unstructured.Unstructured) []string {
	kind := obj.GroupVersionKind()
	versions, found := s[kind.GroupKind()]
	if !found {
		return nil
	}
	form, served := versions[kind.Version]
	if !served {
		return []string{fmt.Sprintf("the CRD in this bundle does not serve version %s, only %s", kind.Version, strings.Join(slices.Sorted(maps.Keys(versions)), ", "))}
	}
	c := schemaCheck{}
	c.object("", obj.Object, form, true)
	return c.problems
}

// schemaCheck collects what a schema does not accept.
type schemaCheck struct{ problems []string }

func (c *schemaCheck) add(path, format string, args ...any) {
	c.problems = append(c.problems, strings.TrimPrefix(path, ".")+" "+fmt.Sprintf(format, args...))
}

// value checks a value.
func (c *schemaCheck) value(path string, value any, form map[string]any) {
	if !c.typed(path, value, form) {
		return
	}
	same := func(a any) bool { return sameScalar(a, value) }
	if allowed, _ := form["enum"].([]any); len(allowed) > 0 && !slices.ContainsFunc(allowed, same) {
		c.add(path, "must be one of %s", listed(allowed))
	}
	switch v := value.(type) {
	case map[string]any:
		embedded, _ := form["x-kubernetes-embedded-resource"].(bool)
		c.object(path, v, form, embedded)
	case []any:
		c.limits(path, float64(len(v)), form, "minItems", "maxItems", "items")
		items, _ := form["items"].(map[string]any)
		for i, item := range v {
			if items != nil {
				c.value(fmt.Sprintf("%s[%d]", path, i), item, items)
			}
		}
	case string:
		c.limits(path, float64(utf8.RuneCountInString(v)), form, "minLength", "maxLength", "characters")
		c.pattern(path, v, form)
	case int64, float64:
		n, _ := kube.Float(v)
		c.number(path, n, form)
	}
}

// typed checks the type of a value. A schema without one accepts each.
func (c *schemaCheck) typed(path string, value any, form map[string]any) bool {
	if either, _ := form["x-kubernetes-int-or-string"].(bool); either {
		if _, text := value.(string); !text && !isType(value, "integer") {
			c.add(path, "must be an integer or a text")
			return false
		}
		return true
	}
	wanted, _ := form["type"].(string)
	if wanted != "" && !isType(value, wanted) {
		c.add(path, "must be of the type %s", wanted)
		return false
	}
	return true
}

func isType(value any, wanted string) bool {
	switch v := value.(type) {
	case map[string]any:
		return wanted == "object"
	case []any:
		return wanted == "array"
	case string:
		return wanted == "string"
	case bool:
		return wanted == "boolean"
	case int64:
		return wanted == "integer" || wanted == "number"
	case float64:
		return wanted == "number" || wanted == "integer" && v == math.Trunc(v)
	}
	return true
}

// object checks the fields of an object. The root, and an embedded resource, has metadata of its own.
func (c *schemaCheck) object(path string, fields, form map[string]any, resource bool) {
	properties, _ := form["properties"].(map[string]any)
	required, _ := form["required"].([]any)
	for _, r := range required {
		name, _ := r.(string)
		property, _ := properties[name].(map[string]any)
		_, byDefault := property["default"]
		if _, found := fields[name]; !byDefault && !found {
			c.add(path+"."+name, "is required")
		}
	}
	c.limits(path, float64(len(fields)), form, "minProperties", "maxProperties", "fields")
	others, hasOthers := form["additionalProperties"]
	open := hasOthers && others != false || form["x-kubernetes-preserve-unknown-fields"] == true || len(form) == 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		property, known := properties[name].(map[string]any)
		other, _ := others.(map[string]any)
		switch {
		case resource && (name == "apiVersion" || name == "kind" || name == "metadata"):
		case known:
			c.value(path+"."+name, fields[name], property)
		case other != nil:
			c.value(path+"."+name, fields[name], other)
		case !open:
			c.add(path+"."+name, "is an unknown field")
		}
	}
}

// limits checks how many there are of something.
func (c *schemaCheck) limits(path string, n float64, form map[string]any, least, most, what string) {
	if limit, found := kube.Float(form[least]); found && n < limit {
		c.add(path, "must have at least %v %s", limit, what)
	}
	if limit, found := kube.Float(form[most]); found && n > limit {
		c.add(path, "must have at most %v %s", limit, what)
	}
}

func (c *schemaCheck) number(path string, n float64, form map[string]any) {
	if limit, found := kube.Float(form["minimum"]); found && (n < limit || n == limit && form["exclusiveMinimum"] == true) {
		c.add(path, "is below the minimum, %v", limit)
	}
	if limit, found := kube.Float(form["maximum"]); found && (n > limit || n == limit && form["exclusiveMaximum"] == true) {
		c.add(path, "is above the maximum, %v", limit)
	}
}

func (c *schemaCheck) pattern(path, text string, form map[string]any) {
	pattern, _ := form["pattern"].(string)
	if pattern == "" {
		return
	}
	if re, err := regexp.Compile(pattern); err == nil && !re.MatchString(text) {
		c.add(path, "must match the pattern %s", pattern)
	}
}

// sameScalar compares a value with one of an enum. Others than scalars are left to the API server.
func sameScalar(a, value any) bool {
	switch value.(type) {
	case string, bool, int64, float64:
		return kube.EqualScalars(a, value)
	}
	return true
}

func listed(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}
