package readiness

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxCommand bounds the shown part of a command line.
const maxCommand = 200

// unknownListener is shown when the process cannot be found: only root sees the processes of other
// users.
const unknownListener = `find it with "ss -ltnp", and stop it`

// listener describes the process that listens at an address, for people. It reads /proc.
func listener(address string) string {
	_, service, _ := net.SplitHostPort(address)    // a dial accepted it
	port, _ := net.LookupPort("tcp", service)      // likewise
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // its only error is a bad pattern
	sockets := listening(port)
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !sockets[target] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		command, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil {
			continue // the process has just ended
		}
		text := strings.ToValidUTF8(string(bytes.TrimSpace(bytes.ReplaceAll(command, []byte{0}, []byte(" ")))), "")
		return fmt.Sprintf("process %s (%.*s); stop it", pid, maxCommand, text)
	}
	return unknownListener
}

// listening returns the sockets that listen at a port of any address, as links in /proc name them.
func listening(port int) map[string]bool {
	const stateListen = "0A"
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6, or not Linux
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // number, local address, remote address, state, ..., inode
			if len(fields) < 10 || fields[3] != stateListen {
				continue
			}
			_, local, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(local, 16, 16); err == nil && int(n) == port {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	return sockets
}
