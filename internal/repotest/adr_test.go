package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// adrHead is how a decision begins: its number, which its file has too, its
// status and its date.
var adrHead = regexp.MustCompile(`^# ([0-9]+)\. .+\n\nStatus: (accepted|replaced by .+)\. Date: 20[0-9]{2}-[0-9]{2}-[0-9]{2}\.\n\n## Context\n`)

func TestDecisionsAreListed(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	for _, page := range pages(t) {
		if path.Dir(page) != "docs/adr" || path.Base(page) == "README.md" {
			continue
		}
		head := adrHead.FindStringSubmatch(read(t, page))
		if head == nil {
			t.Errorf("%s: want number, status and date at the top, as in docs/adr/0001-dependencies.md", page)
			continue
		}
		number := strings.TrimLeft(path.Base(page)[:4], "0")
		if head[1] != number {
			t.Errorf("%s has the number %s", page, head[1])
		}
		if !strings.Contains(index, "| "+number+" | [") || !strings.Contains(index, "]("+path.Base(page)+") |") {
			t.Errorf("docs/adr/README.md has no row for %s", page)
		}
	}
}
