package repotest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// cites are the forms in which papers outside the repository were cited, put
// together of halves so that this file has none. What we cite is a page of
// docs/ with its anchor, or a public source by its name.
var cites = []unwanted{
	{regexp.MustCompile(`\b(DES` + `IGN|FA` + `CTS|STY` + `LE)\b`), "cite a page of docs/, as docs/protocol-nodes.md#gate", nil},
	{regexp.MustCompile(`\(` + sections + `(,|;|:|\)| rule| and )`), "cite docs/protocol.md by anchor", isSpecification},
	{regexp.MustCompile(sections + ` ru` + `le [0-9]`), "name the rule, as protocol.WaitForNodes", isSpecification},
	{regexp.MustCompile(`(?i)\bru` + `les? [0-9]`), "name the rule, as protocol.WaitForNodes", isSpecification},
	{regexp.MustCompile(`(?i)\bsec` + `tion [0-9]`), "cite docs/protocol.md by anchor", isSpecification},
}

// sections is the number of a section, as it was cited.
const sections = `\b[2-9]\.[0-9]{1,2}`

// isSpecification is for the pages with the rules themselves.
func isSpecification(name string) bool { return strings.HasPrefix(name, "docs/protocol") }

func TestNothingOutsideTheRepositoryIsCited(t *testing.T) {
	for _, name := range files(t) {
		if text := read(t, name); isText(text) {
			wantNone(t, name, text, cites)
		}
	}
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// wantNone reports each place of a file that breaks one of some rules.
func wantNone(t *testing.T, name, text string, all []unwanted) {
	t.Helper()
	for _, r := range all {
		if r.spare != nil && r.spare(name) {
			continue
		}
		for _, at := range r.word.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			t.Errorf("%s:%d: %q: %s", name, line, text[at[0]:at[1]], r.why)
		}
	}
}

// citedPage is how comments, messages and pages cite a page of docs/.
var citedPage = regexp.MustCompile(`\bdocs/([a-z0-9/_-]+\.md)(?:#([A-Za-z0-9_-]+))?`)

func TestCitedPagesExist(t *testing.T) {
	known := map[string][]string{}
	for _, page := range pages(t) {
		known[page] = anchors(read(t, page))
	}
	cited := 0
	for _, name := range files(t) {
		if path.Dir(name) == "internal/repotest" || !isText(read(t, name)) {
			continue
		}
		for _, m := range citedPage.FindAllStringSubmatch(read(t, name), -1) {
			cited++
			page, anchor := "docs/"+m[1], m[2]
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(page))); err != nil {
				t.Errorf("%s cites %s, which does not exist", name, page)
			} else if anchor != "" && !slices.Contains(known[page], anchor) {
				t.Errorf("%s cites %s#%s: the page has no such heading or anchor", name, page, anchor)
			}
		}
	}
	if cited < 10 {
		t.Errorf("got %d citations: this test no longer sees them", cited)
	}
}
