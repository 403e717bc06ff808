// Package repotest holds the repository to its own rules: which package may
// import which, that every package says what it owns, that functions are small
// and names mean one thing, which words we write, and that the documents are
// true (links, citations, flags, commands, reasons, metrics).
//
// It has tests only, and nothing imports it. It owns docs/metrics.md, which
// `go test ./internal/repotest -rewrite` writes.
package repotest
