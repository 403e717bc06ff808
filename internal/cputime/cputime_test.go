package cputime

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"
)

// Short functions cost what they cost together: none is free, and none costs what the thread did before.
func TestOf_short(t *testing.T) {
	const times = 200
	text := make([]byte, 8<<10)
	short := func() { sha256.Sum256(text) }
	together := cost(t, func() {
		for range times {
			short()
		}
	}) / times
	var each []time.Duration
	for range times {
		each = append(each, cost(t, short))
	}
	slices.Sort(each)
	if median := each[times/2]; median < together/4 || median > 4*together {
		t.Errorf("one of %d costs %s, each alone %s", times, together, median)
	}
}

func cost(t *testing.T, f func()) time.Duration {
	t.Helper()
	got, err := Of(f)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
