// Package repotest holds the repository to its own rules: who may import whom,
// that every package says what it owns, and that the documents tell the truth
// (links, flags, commands, reasons, metrics). It has tests only, owns
// docs/metrics.md, which `go test ./internal/repotest -rewrite` writes, and
// nothing imports it.
package repotest
