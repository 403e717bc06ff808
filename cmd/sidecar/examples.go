package main

import (
	_ "embed"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// exampleText contains the examples of all commands, each below a line "== PATH".
//
//go:embed examples.txt
var exampleText string

// examples returns the examples in the help of each command, by its path.
func examples() map[string]string {
	out, line := map[string]string{}, "\n"+terminal.HelpIndent
	for part := range strings.SplitSeq(exampleText, "== ") {
		if path, text, found := strings.Cut(part, "\n"); found {
			text = strings.ReplaceAll("\n"+strings.TrimSuffix(text, "\n"), "\n", line)
			out[path] = strings.ReplaceAll(strings.TrimPrefix(text, "\n"), line+"\n", "\n\n")
		}
	}
	return out
}
