// Package shell writes commands that people paste into a shell.
package shell

import "strings"

// Quote quotes s as one word of a shell.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:,@%+=[]", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Line quotes a command and its arguments.
func Line(args []string) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		words = append(words, Quote(a))
	}
	return strings.Join(words, " ")
}
