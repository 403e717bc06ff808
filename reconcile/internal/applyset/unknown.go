package applyset

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// maxUnknown bounds the unknown fields of a mark, in bytes of JSON: a ConfigMap has a limit, and
// the inventory needs it.
const maxUnknown = 4 << 10

// extended is a JSON object with its known fields, and those that this program does not know.
// No decision uses the unknown ones (docs/protocol.md#unknown-fields).
type extended[T any] struct {
	known   T // a struct with at least one field that is always written
	unknown map[string]json.RawMessage
}

// MarshalJSON writes the known fields first, then the others by name.
func (o extended[T]) MarshalJSON() ([]byte, error) {
	known, err := json.Marshal(o.known)
	if err != nil || len(o.unknown) == 0 {
		return known, err
	}
	unknown, err := json.Marshal(o.unknown)
	if err != nil {
		return nil, err
	}
	return append(append(known[:len(known)-1], ','), unknown[1:]...), nil
}

// UnmarshalJSON returns an error exactly if the known fields cannot be decoded.
func (o *extended[T]) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &o.known); err != nil {
		return err
	}
	o.unknown = nil
	if err := json.Unmarshal(data, &o.unknown); err != nil {
		return err
	}
	maps.DeleteFunc(o.unknown, func(name string, _ json.RawMessage) bool { return hasField[T](name) })
	return nil
}

// hasField reports whether encoding/json decodes a member of that name into a field of T: it
// ignores case.
func hasField[T any](name string) bool {
	for f := range reflect.TypeFor[T]().Fields() {
		if known, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}

// over returns m with the unknown fields of the mark that it replaces; a damaged one has none. A
// field of an entry stays as long as the entry does.
func (m markJSON) over(previous string) extended[markJSON] {
	out := extended[markJSON]{known: m}
	if _, err := decodeMark(previous); err != nil {
		return out
	}
	var was extended[markJSON]
	if json.Unmarshal([]byte(previous), &was) != nil {
		return out // decodeMark did the same
	}
	out.unknown = was.unknown
	for i, e := range m.Entries {
		for _, have := range was.known.Entries {
			if have.known == e.known {
				m.Entries[i].unknown = have.unknown
			}
		}
	}
	return out
}
