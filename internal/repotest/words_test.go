package repotest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// word is one that we do not write, and what we write instead.
type word struct {
	pattern *regexp.Regexp
	instead string
}

// say makes a word of a pattern in which a space is whatever lies between two
// words: the end of a line too, with the marks of a comment.
func say(pattern, instead string) word {
	between := `(?:[\s*]|//|#)+`
	return word{regexp.MustCompile(`\b(?:` + strings.ReplaceAll(pattern, " ", between) + `)\b`), instead}
}

// ourWords keeps one word for one thing, and the words of Kubernetes and etcd.
// The patterns are exact rather than complete: what they find is wrong.
var ourWords = []word{
	say(`[Tt]he own`, `its own; or this node's, as in "this node's kube-apiserver"`),
	say(`own (?:kube-)?apiserver`, `this node's kube-apiserver`),
	say(`anew|once more`, `again`),
	say(`(?:but|save) for`, `except`),
	say(`[Ff]olders?`, `directory`),
	say(`[Pp]ut(?:s|ting)?(?: \w+){0,3} (?:back|right)`, `repair, restore`),
	say(`[Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody`, `name the actor: the leader, a node, a user, another client`),
	say(`bears?|borne`, `has, carries`),
	say(`stands?|stood`, `is, has`),
	say(`tells|told`, `reports, shows, says; a program learns`),
	say(`(?:record|status|key|mark|object|value|annotation|label|field|stamp|list)s? says?`, `has, contains, names, is`),
	say(`(?:is|are|was|were|be) gone`, `is missing, was deleted, has left, has ended`),
	say(`lacks`, `has no, is missing`),
	say(`(?:is|are|was|were) not there`, `is missing, does not exist`),
	say(`(?:is|are|was|were) away`, `is unreachable, is stopped`),
	say(`out of reach`, `unreachable`),
	say(`(?:is|are|was|were|be|a) well|well again`, `valid, healthy`),
	say(`in good order`, `gracefully`),
	say(`gets? along`, `is compatible`),
	say(`not taken over`, `rejected`),
	say(`in thought`, `simulated`),
	say(`[Qq]uarrels?|[Cc]ulprits?|[Bb]lames?`, `fight, the other writer`),
	say(`[Tt]wins?`, `duplicate node ID`),
	say(`(?:a|the|each|every|one|last|next|first|second) looks?|looks? again`, `observe, read again, a list, a snapshot`),
	say(`(?:release|node|leader|controller)s? (?:comes|goes|came|went)`, `starts, joins, stops, leaves`),
	say(`hears?|heard`, `receives, learns`),
	say(`mend(?:s|ed|ing)?`, `fix, repair`),
	say(`hopeless|lest`, `a plainer word`),
}

// ourNames are parts of identifiers that we do not use.
var ourNames = []word{
	say(`folder`, `dir`),
	say(`anew`, `again`),
	say(`quarrels?|culprits?|blames?`, `fight`),
	say(`twins?`, `duplicate`),
	say(`doubt`, `lastUnknown`),
	say(`hopeless`, `disconnected`),
}

func TestWordsInPages(t *testing.T) {
	for _, name := range files(t) {
		if isPage(name) {
			text := read(t, name)
			wantOurWords(t, name, 1, text)
		}
	}
}

// isPage reports whether people read the file as it is.
func isPage(name string) bool {
	switch path.Ext(name) {
	case ".md", ".proto", ".html", ".yml":
		return true
	}
	return slices.Contains([]string{"Makefile", ".ci/run", "Dockerfile", "openapi.yaml"}, name)
}

// anyOfThem is one pattern for all, since most texts have none of them.
var anyOfThem = func() *regexp.Regexp {
	var all []string
	for _, w := range ourWords {
		all = append(all, w.pattern.String())
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// wantOurWords reports each word in text, which begins at a line of a file.
func wantOurWords(t *testing.T, name string, line int, text string) {
	t.Helper()
	if !anyOfThem.MatchString(text) {
		return
	}
	for _, w := range ourWords {
		for _, at := range w.pattern.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q: write %s", name, line+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], w.instead)
		}
	}
}

func TestWordsInCode(t *testing.T) {
	for _, s := range sources(t) {
		// This file has the words themselves.
		if s.path != "internal/repotest/words_test.go" {
			checkWordsInCode(t, s)
		}
	}
}

// checkWordsInCode holds comments, messages and declared names of a Go file to
// our words.
func checkWordsInCode(t *testing.T, s source) {
	t.Helper()
	text := read(t, s.path)
	for _, group := range s.file.Comments {
		from, to := s.set.Position(group.Pos()).Offset, s.set.Position(group.End()).Offset
		wantOurWords(t, s.path, s.line(group.Pos()), text[from:to])
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if isMessage(n) {
				wantOurWords(t, s.path, s.line(n.Pos()), n.Value)
			}
		case *ast.Ident:
			wantOurName(t, s, n)
		}
		return true
	})
}

// isMessage reports whether a literal is meant for people: it has more than one
// word.
func isMessage(lit *ast.BasicLit) bool {
	if lit.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && strings.Contains(strings.TrimSpace(text), " ")
}

var hump = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

func wantOurName(t *testing.T, s source, id *ast.Ident) {
	t.Helper()
	parts := strings.ToLower(strings.Join(hump.FindAllString(id.Name, -1), " "))
	for _, w := range ourNames {
		if w.pattern.MatchString(parts) {
			t.Errorf("%s:%d: %s: name it %s", s.path, s.line(id.Pos()), id.Name, w.instead)
		}
	}
}
