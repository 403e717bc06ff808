package app

import "strings"

// BootID identifies the boot of this machine, for turns; empty: it is unknown.
func BootID() string { return firstLine(bootIDFile) }

// CommandLine quotes a command for a shell.
func CommandLine(args []string) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		words = append(words, shellQuoted(a))
	}
	return strings.Join(words, " ")
}
