// Package terminal lays out text for people on the screen that reads it: it wraps
// sentences, so that a command among them can still be pasted, aligns columns, paints
// what matters, and removes characters that could control a terminal. It knows the
// commands of the program only as words. It asks nothing, and what a text says is
// its callers' business.
package terminal
