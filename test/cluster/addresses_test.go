package cluster

import (
	"slices"
	"testing"
)

// TestNodeAddresses: two tests that run at the same time get different addresses, although
// nothing listens at them yet.
func TestNodeAddresses(t *testing.T) {
	first, err := NodeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NodeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 2 || len(second) != 2 || slices.Contains(second, first[0]) || slices.Contains(second, first[1]) {
		t.Errorf("got %v and %v", first, second)
	}
}
