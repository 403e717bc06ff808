// Package checks reads the answers of health endpoints such as /readyz of kube-apiserver:
// a line for each check, "[+]ping ok" or "[-]etcd failed: reason withheld".
package checks

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// MaxBody is how much to read of an answer: the failed checks may be its last ones.
	MaxBody = 64 << 10
	// maxShown is how many failed checks are named: a server that starts has dozens.
	maxShown = 5
	// maxLine bounds one of them.
	maxLine = 200
)

// Failed returns the failed checks of an answer, in one line; empty: it names none.
func Failed(body string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[-]") {
			failed = append(failed, line[:min(len(line), maxLine)])
		}
	}
	more := ""
	if n := len(failed) - maxShown; n > 0 {
		failed, more = failed[:maxShown], fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(failed, "; ") + more
}

// Message returns what an answer of kube-apiserver says that is no list of checks, such as that a
// user may not read them; empty: it is none.
func Message(body string) string {
	var status struct{ Kind, Message string }
	if err := json.Unmarshal([]byte(body), &status); err != nil || status.Kind != "Status" {
		return ""
	}
	return status.Message[:min(len(status.Message), maxLine)]
}
