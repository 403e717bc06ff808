// Package report defines what Lockstep reports about itself, as plain values: /status and the other answers of the
// HTTP API, and previews of a pass. Each fact is declared here once, with the name of its JSON field. The package that
// owns a fact fills it in, package httpapi renders it, and the commands decode and print it. openapi.yaml describes
// the fields, and a test of httpapi compares both.
//
// Every field is always present in JSON. Without a value, a string is empty, a number 0, a [List] [] and a [Timestamp]
// null. After a value was published, neither it nor its lists may change.
//
// The package decides nothing, and starts no goroutine.
package report

import (
	"encoding/json"
	"time"
)

// Timestamp is a time that a report shows; zero: never.
type Timestamp struct{ time.Time }

// At returns t as a Timestamp.
func At(t time.Time) Timestamp { return Timestamp{t} }

// MarshalJSON returns RFC 3339 in UTC, to the millisecond; null for never. The zero Timestamp reads null again.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().Truncate(time.Millisecond).MarshalJSON()
}

// List is a list that is [] in JSON without elements, never null.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
