package reconcile

import (
	"github.com/lockstep-dev/lockstep/internal/kube"
)

// inPlace reports whether live has all that want asks for. What live has beyond
// that is the server's or somebody else's. false means "different, or in doubt":
// the server may have normalized a value, and only an apply can tell, which then
// changes nothing.
func inPlace(want, live *kube.Object) bool {
	// What we own takes time to read, and is seldom asked for.
	return inPlaceAs(want, live, nil) || inPlaceAs(want, live, appliedFields(live))
}

func inPlaceAs(want, live *kube.Object, owned *fields) bool {
	for field, value := range want.Object {
		switch field {
		case "apiVersion", "kind": // the list was asked for these
		case "metadata":
			if !matches(value, live.Object[field], owned.child(field)) {
				return false
			}
		default:
			if !holds(value, live.Object, field, owned.child(field)) {
				return false
			}
		}
	}
	return true
}

// holds is matches for a field that may be missing. owned is what we own of it.
func holds(want any, have map[string]any, field string, owned *fields) bool {
	if value, found := have[field]; found {
		return matches(want, value, owned)
	}
	// Servers do not store some values that say nothing, like `globalDefault:
	// false`. If the field is still listed as applied by us, nobody took it
	// away: it was never stored.
	return isZero(want) && owned.here()
}

// matches compares a value of the manifest with the live one.
func matches(want, have any, owned *fields) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		return ok && matchesMap(w, h, owned)
	case []any:
		h, ok := have.([]any)
		return ok && matchesList(w, h)
	default:
		return sameScalar(want, have)
	}
}

func matchesMap(want, have map[string]any, owned *fields) bool {
	for name, w := range want {
		if !holds(w, have, name, owned.child(name)) {
			return false
		}
	}
	return true
}

// matchesList compares lists item by item. In lists that are maps by a key,
// others may have added items or changed the order: that is "in doubt".
func matchesList(want, have []any) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if !matches(want[i], have[i], nil) {
			return false
		}
	}
	return true
}

// sameScalar takes 1 and 1.0 for the same: JSON does.
func sameScalar(want, have any) bool {
	w, wok := asFloat(want)
	h, hok := asFloat(have)
	if wok && hok {
		return w == h
	}
	switch want.(type) {
	case nil, bool, string:
		switch have.(type) {
		case nil, bool, string:
			return want == have
		}
		return false
	}
	return want == have && wok == hok
}

func asFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func isZero(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case string:
		return x == ""
	case int64:
		return x == 0
	case float64:
		return x == 0
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}
