package main

import (
	_ "embed"
	"strings"
)

// exampleText contains the examples of all commands, each below a line "== PATH".
//
//go:embed examples.txt
var exampleText string

// examples returns the examples in the help of each command, by its path.
func examples() map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(exampleText, "== ") {
		if path, text, found := strings.Cut(part, "\n"); found {
			text = strings.TrimSuffix(text, "\n")
			out[path] = strings.ReplaceAll(helpIndent+strings.ReplaceAll(text, "\n", "\n"+helpIndent), "\n"+helpIndent+"\n", "\n\n")
		}
	}
	return out
}
