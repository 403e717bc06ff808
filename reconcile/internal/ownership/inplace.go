package ownership

import (
	"github.com/lockstep-dev/lockstep/internal/kube"
)

// InPlace reports whether live contains all that want asks for. Fields that are only in live
// belong to the server or to other managers. false means "different, or in doubt": the server
// may normalize a value. Then only an apply can decide, and it changes nothing.
func InPlace(want, live *kube.Object) bool {
	// To decode our fields takes time, and is seldom needed.
	return inPlaceAs(want, live, nil) || inPlaceAs(want, live, applied(live))
}

// MetadataInPlace is InPlace for the metadata alone.
func MetadataInPlace(want, live *kube.Object) bool {
	return matches(want.Object["metadata"], live.Object["metadata"], nil)
}

func inPlaceAs(want, live *kube.Object, owned set) bool {
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

// holds is matches for a field that may be missing. owned is our part of it.
func holds(want any, have map[string]any, field string, owned set) bool {
	if value, found := have[field]; found {
		return matches(want, value, owned)
	}
	// Servers do not store some zero values, like `globalDefault: false`. If the
	// field is still recorded as applied by us, no manager removed it: it was
	// never stored.
	return isZero(want) && owned != nil
}

// matches compares a value of the manifest with the live one.
func matches(want, have any, owned set) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		return ok && matchesMap(w, h, owned)
	case []any:
		h, ok := have.([]any)
		return ok && matchesList(w, h)
	default:
		return kube.EqualScalars(want, have)
	}
}

func matchesMap(want, have map[string]any, owned set) bool {
	for name, w := range want {
		if !holds(w, have, name, owned.child(name)) {
			return false
		}
	}
	return true
}

// matchesList compares lists item by item. In lists that are maps by a key, others may add
// items or change the order, which is "in doubt".
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
