package app

import "strings"

// BootID identifies the boot of this machine; empty: it is not known. Turns have it.
func BootID() string { return firstLine(bootIDFile) }

// CommandLine is a command as a shell reads it.
func CommandLine(args []string) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		words = append(words, shellQuoted(a))
	}
	return strings.Join(words, " ")
}
