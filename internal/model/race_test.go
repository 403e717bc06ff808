//go:build race

package model

// The race detector has nothing to find here, the package has no goroutines,
// and makes a search ten times slower: the bounds are smaller under it.
const raced = true
