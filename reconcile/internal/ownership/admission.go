package ownership

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// Changed returns the fields of want whose values differ in live, like ".data.x": the first
// few, sorted. live is the API server's answer to a write of want. So nothing changed these
// fields but the API server: a mutating policy or webhook. Other forms of the same value do not
// count, nor the server's default for an empty value. In doubt a field does not count.
func Changed(want, live *kube.Object) []string {
	if InPlace(want, live) {
		return nil
	}
	var out changes
	for _, field := range slices.Sorted(maps.Keys(want.Object)) {
		switch field {
		case "apiVersion", "kind", "status":
		default:
			if have, exists := live.Object[field]; exists {
				out.compare("."+field, want.Object[field], have)
			}
		}
	}
	return out[:min(len(out), maxFields)]
}

// changes are paths of fields.
type changes []string

// freeMaps contain keys of the user's choice, which a server keeps or refuses. A field that is
// missing elsewhere may exist in another form.
var freeMaps = []string{".metadata.labels", ".metadata.annotations", ".data", ".binaryData"}

func (c *changes) compare(path string, want, have any) {
	switch w := want.(type) {
	case map[string]any:
		if h, isMap := have.(map[string]any); isMap {
			c.compareMaps(path, w, h)
		}
	case []any:
		if h, isList := have.([]any); isList {
			c.compareLists(path, w, h)
		}
	default:
		if isScalar(have) && !sameValue(want, have) {
			*c = append(*c, path)
		}
	}
}

func (c *changes) compareMaps(path string, want, have map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		h, exists := have[name]
		switch {
		case exists:
			c.compare(path+"."+name, want[name], h)
		case slices.Contains(freeMaps, path) && !isZero(want[name]):
			*c = append(*c, path+"."+name)
		}
	}
}

// compareLists pairs items with names by their names, and others by their places. Items that
// are there in another order did not change.
func (c *changes) compareLists(path string, want, have []any) {
	for i, w := range want {
		if slices.ContainsFunc(have, func(h any) bool { return unchanged(w, h) }) {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		if name := nameOf(w); name != "" {
			if j := slices.IndexFunc(have, func(h any) bool { return nameOf(h) == name }); j >= 0 {
				c.compare(at, w, have[j])
			}
			continue
		}
		switch {
		case len(have) == len(want):
			c.compare(at, w, have[i])
		case isScalar(w) && len(have) > 0:
			*c = append(*c, at)
		}
	}
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func unchanged(want, have any) bool {
	switch want.(type) {
	case map[string]any, []any:
		var c changes
		c.compare("", want, have)
		return len(c) == 0 && fmt.Sprintf("%T", want) == fmt.Sprintf("%T", have)
	}
	return isScalar(have) && sameValue(want, have)
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// sameValue reports whether have is a form of the scalar want in which a server may store it,
// or its default for an empty one.
func sameValue(want, have any) bool {
	if kube.EqualScalars(want, have) {
		return true
	}
	if _, isBool := want.(bool); isBool {
		return false
	}
	return isZero(want) || sameText(fmt.Sprint(want), fmt.Sprint(have))
}

func sameText(want, have string) bool {
	return want == have || sameQuantity(want, have) || sameBytes(want, have) ||
		same(want, have, time.ParseDuration) || same(want, have, netip.ParseAddr) || same(want, have, parsePrefix) ||
		same(want, have, func(s string) (int64, error) {
			t, err := time.Parse(time.RFC3339Nano, s)
			return t.UnixNano(), err
		})
}

// same reports whether both texts are forms of one value.
func same[V comparable](want, have string, parse func(string) (V, error)) bool {
	w, err := parse(want)
	if err != nil {
		return false
	}
	h, err := parse(have)
	return err == nil && w == h
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

func sameQuantity(want, have string) bool {
	w, err := resource.ParseQuantity(want)
	if err != nil {
		return false
	}
	h, err := resource.ParseQuantity(have)
	return err == nil && w.Cmp(h) == 0
}

// sameBytes compares base64, which a manifest may split into several lines.
func sameBytes(want, have string) bool {
	joined := strings.NewReplacer("\n", "", "\r", "").Replace(want)
	return joined != want && joined == strings.NewReplacer("\n", "", "\r", "").Replace(have)
}
