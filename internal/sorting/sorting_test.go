package sorting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type element struct{ key, place int }

func TestBy(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 200 {
		var list []element
		for place := range length {
			list = append(list, element{key: random.IntN(20), place: place})
		}
		want := slices.Clone(list)
		byKey := func(a, b element) int { return cmp.Compare(a.key, b.key) }
		slices.SortStableFunc(want, byKey)
		By(list, byKey)
		if !slices.Equal(list, want) {
			t.Fatalf("got %v, want %v", list, want)
		}
	}
}
