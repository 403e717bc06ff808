package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// budget bounds three constructions that say less than the thing's name: in good Go projects they are rare, and
// forbidding words alone moves everything into them. Counts are per 1,000 words of a package's comments,
// or of a page.
var budget = []struct {
	pattern *regexp.Regexp
	most    float64
	instead string
}{
	{regexp.MustCompile(`(?i)\bwhat(ever)?\b`), 4, `name the thing: not "what the directory has" but "the files of the directory"`},
	{regexp.MustCompile(`(?i)\b(has|have|had)\b`), 8, "contains, holds, keeps, runs, needs, lists, reports"},
	{regexp.MustCompile(`(?i)\b(that|those|the ones?) of\b`), 0.3, "repeat the noun"},
}

// shortComments is the number of words below which a count means nothing.
const shortComments = 300

func TestBudgetOfWords(t *testing.T) {
	texts := map[string]string{} // the comments of a package, or a page
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") || strings.HasSuffix(s.path, ".pb.go") || strings.HasPrefix(s.path, "test/") {
			continue
		}
		var text strings.Builder
		for _, group := range s.file.Comments {
			text.WriteString(group.Text() + "\n")
		}
		texts[path.Dir(s.path)] += text.String()
	}
	// docs/adr is dated: the pages there are as they were decided.
	for _, page := range pages(t) {
		if dir := path.Dir(page); dir == "docs" || dir == "." {
			prose := codeSpan.ReplaceAllString(fence.ReplaceAllString(read(t, page), ""), "")
			texts[page] = mdLink.ReplaceAllString(prose, "]")
		}
	}
	for of, text := range texts {
		words := len(strings.Fields(text))
		if words < shortComments {
			continue
		}
		for _, b := range budget {
			got := len(b.pattern.FindAllString(text, -1))
			if rate := 1000 * float64(got-1) / float64(words); rate > b.most {
				t.Errorf("%s: %d in %d words match %s, want at most %.1f in 1,000; write instead: %s", of, got, words, b.pattern, b.most, b.instead)
			}
		}
	}
}
