package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest returns "sha256:" and a checksum of the services before Expand; empty: there are none. So
// nodes with the same files get the same digest, although their addresses differ. Comments do not
// count. Zero fields are left out, so that a program that knows more optional fields computes the
// same digest.
func Digest(all []Service) string {
	if len(all) == 0 {
		return ""
	}
	var tree any
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err == nil {
		text, err = json.Marshal(withoutZeros(tree)) // keys are sorted
	}
	if err != nil {
		panic(err) // services are made of strings, numbers and lists
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// withoutZeros returns a decoded value without its zero fields.
func withoutZeros(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if v[name] = withoutZeros(field); v[name] == nil {
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = withoutZeros(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string, float64, bool:
		if v == "" || v == 0.0 || v == false {
			return nil
		}
	}
	return v
}
