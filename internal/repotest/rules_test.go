package repotest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRulesHaveOneOrder: rules.go, openapi.yaml, the table of doc.go and the table
// of the page list the leader's rules in one order. That Next evaluates them in it is a test
// of protocol.
func TestRulesHaveOneOrder(t *testing.T) {
	rules := ruleConstants(t)
	if len(rules) < 10 {
		t.Fatalf("got %d rules: this test no longer understands rules.go", len(rules))
	}
	doc := columns(t, "protocol/doc.go", `(?m)^//\t([A-Z]\w+) {2,}\S.* {2,}\S.*$`, rules)
	if !slices.Equal(rules, doc) {
		t.Errorf("protocol/doc.go lists %v\nrules.go %v", doc, rules)
	}
	enum := `enum: ["", ` + strings.Join(rules, ", ") + "]"
	if !strings.Contains(read(t, "openapi.yaml"), enum) {
		t.Errorf("openapi.yaml: want %s", enum)
	}
	page := columns(t, "docs/protocol.md", "(?m)^\\| [0-9]+ \\| .*?`([A-Za-z]+)`", rules)
	if !slices.Equal(rules, page) {
		t.Errorf("docs/protocol.md lists %v\nrules.go %v", page, rules)
	}
}

// TestEveryRuleHasAnAnchor: the comment of each rule cites its own anchor, which
// the page has.
func TestEveryRuleHasAnAnchor(t *testing.T) {
	known := anchors(read(t, "docs/protocol.md"))
	specs := ruleSpecs(t)
	for _, rule := range ruleConstants(t) {
		anchor := "rule-" + kebab(rule)
		if !slices.Contains(known, anchor) {
			t.Errorf("docs/protocol.md has no anchor %s", anchor)
		}
		if !strings.Contains(specs[rule].Doc.Text(), "docs/protocol.md#"+anchor+")") {
			t.Errorf("protocol/rules.go: the comment of %s does not cite docs/protocol.md#%s", rule, anchor)
		}
	}
}

// columns returns what a pattern finds in a file, without what is no rule.
func columns(t *testing.T, file, pattern string, rules []string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
		if slices.Contains(rules, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// ruleConstants returns the constants of type Rule, in the order of the source.
func ruleConstants(t *testing.T) []string {
	t.Helper()
	specs := ruleSpecs(t)
	return slices.DeleteFunc(constants(parse(t, "protocol/rules.go").file), func(name string) bool { return specs[name] == nil })
}

func ruleSpecs(t *testing.T) map[string]*ast.ValueSpec {
	t.Helper()
	out := map[string]*ast.ValueSpec{}
	ast.Inspect(parse(t, "protocol/rules.go").file, func(n ast.Node) bool {
		gen, ok := n.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			return true
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if typ, isIdent := v.Type.(*ast.Ident); isIdent && typ.Name == "Rule" {
				out[v.Names[0].Name] = v
			}
		}
		return false
	})
	return out
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

// kebab turns WaitForNodes into wait-for-nodes.
func kebab(name string) string {
	return strings.ToLower(capital.ReplaceAllString(name, "$1-$2"))
}

// indexRow is a row of an index in a doc.go that begins with an anchor.
var (
	indexRow  = regexp.MustCompile(`(?m)^//\t#([a-z-]+) +(.*)$`)
	indexFile = regexp.MustCompile(`[a-z0-9_/]+/[a-z0-9_]+\.(?:go|proto)`)
	indexName = regexp.MustCompile(`(?m)^//\t(?:#[a-z-]+)? +([A-Za-z]+) +([a-z]+\.go) `)
)

// TestTheIndexOfTheProtocolIsTrue: the tables of each doc.go lead from a section of
// the page to what decides it, and to what carries it out.
func TestTheIndexOfTheProtocolIsTrue(t *testing.T) {
	rows := 0
	for _, dir := range []string{"protocol", "protocol/warn", "protocol/upgrade", "protocol/noderecord", "protocol/publish", "protocol/membership", "protocol/nodeservices", "protocol/nodeturns"} {
		rows += len(indexIsTrue(t, dir))
	}
	if rows < 20 {
		t.Fatalf("got %d rows: this test no longer understands doc.go", rows)
	}
}

// indexIsTrue returns the rows of the index of a package.
func indexIsTrue(t *testing.T, dir string) [][]string {
	t.Helper()
	text, known := read(t, dir+"/doc.go"), anchors(specification(t))
	rows := indexRow.FindAllStringSubmatch(text, -1)
	for _, row := range rows {
		if !slices.Contains(known, row[1]) {
			t.Errorf("%s/doc.go: no page of the protocol has an anchor %s", dir, row[1])
		}
		for _, file := range indexFile.FindAllString(row[2], -1) {
			if !slices.Contains(files(t), file) {
				t.Errorf("%s/doc.go: there is no file %s", dir, file)
			}
		}
	}
	for _, m := range indexName.FindAllStringSubmatch(text, -1) {
		if file := dir + "/" + m[2]; !slices.Contains(files(t), file) {
			t.Errorf("%s/doc.go: there is no file %s", dir, file)
		} else if !regexp.MustCompile(`(?m)^(func|type) (\([^)]*\) )?` + m[1] + `\b`).MatchString(read(t, file)) {
			t.Errorf("%s/doc.go: %s does not declare %s", dir, file, m[1])
		}
	}
	return rows
}

// section is a section of a page: its anchor, and its title.
var section = regexp.MustCompile(`<a id="([a-z-]+)"></a>\n\n##+ (.+)`)

// TestTheTopicsOfTheProtocolAreAllItsSections: a reader finds each section of each page in one table, and does
// not look for it below one about another subject.
func TestTheTopicsOfTheProtocolAreAllItsSections(t *testing.T) {
	_, topics, _ := strings.Cut(read(t, "docs/protocol.md"), "| topic | sections |")
	topics, _, _ = strings.Cut(topics, "\n\n")
	found, seen := 0, map[string]string{}
	for _, page := range specificationPages(t) {
		for _, s := range section.FindAllStringSubmatch(read(t, page), -1) {
			found++
			if other := seen[s[1]]; other != "" {
				t.Errorf("%s and %s both have the anchor %s", other, page, s[1])
			}
			seen[s[1]] = page
			target := strings.TrimPrefix(page, "docs/")
			if target == "protocol.md" {
				target = ""
			}
			if link := "[" + s[2] + "](" + target + "#" + s[1] + ")"; !strings.Contains(topics, link) {
				t.Errorf("docs/protocol.md: the table of topics has no %s", link)
			}
		}
	}
	if found < 30 {
		t.Fatalf("got %d sections: this test no longer understands the pages", found)
	}
}

// specificationPages are docs/protocol.md and the pages that it is cut into.
func specificationPages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(pages(t), func(name string) bool { return !strings.HasPrefix(name, "docs/protocol") })
}

// specification is the text of all pages of the specification.
func specification(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, page := range specificationPages(t) {
		out.WriteString(read(t, page) + "\n")
	}
	return out.String()
}
