// Package machine identifies this machine and its boot.
package machine

import (
	"os"
	"strings"
)

const (
	idFile     = "/etc/machine-id"
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// ID identifies the machine, or in a container without that ID, its boot. Empty: unknown.
func ID() string {
	if id := firstLine(idFile); id != "" {
		return id
	}
	return BootID()
}

// BootID identifies the boot of this machine; empty: unknown.
func BootID() string { return firstLine(bootIDFile) }

// firstLine returns the first line of a file; empty if it cannot be read.
func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
