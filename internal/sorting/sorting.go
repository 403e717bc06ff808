// Package sorting sorts lists of any type with code that is compiled once. The functions of
// slices are compiled for each type of element, which is 20 to 40 KB of the program each
// time. Where a list is long and often sorted, they are worth it.
package sorting

import "sort"

// By sorts a list by compare. Elements that are equal stay in their order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
