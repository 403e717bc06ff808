//go:build race

package model

// The race detector finds nothing in a package without goroutines, and it
// makes a search ten times slower. So a search covers less under it.
const raced = true
