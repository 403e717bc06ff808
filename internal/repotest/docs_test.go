package repotest

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns all Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(files(t), func(name string) bool { return !strings.HasSuffix(name, ".md") })
}

// mostWords bounds the words of the pages that people read. Every change adds sentences: one
// that goes beyond the bound takes the place of one that another page has, too.
const mostWords = 60_000

func TestPagesAreShort(t *testing.T) {
	words := 0
	for _, page := range pages(t) {
		if dir := path.Dir(page); dir == "docs" || page == "README.md" || page == "CHANGELOG.md" {
			words += len(strings.Fields(read(t, page)))
		}
	}
	if words > mostWords {
		t.Errorf("README.md, CHANGELOG.md and docs/*.md have %d words, want at most %d: leave out what another page says, too, and link to it", words, mostWords)
	}
}

var (
	fence      = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan   = regexp.MustCompile("`[^`\n]+`")
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	mdAnchor   = regexp.MustCompile(`<a id="([^"]+)">`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	flagWord   = regexp.MustCompile(`(?:^|[\s` + "`" + `"'(,\[])--([a-z][a-z0-9-]+)`)
	subcommand = regexp.MustCompile("(?m)(?:^ *|[`/]|[$|] )(sidecar ([a-z][a-z-]+))")
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text := fence.ReplaceAllString(read(t, page), "")
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if problem := linkProblem(t, page, m[1]); problem != "" {
				t.Errorf("%s: link %s: %s", page, m[1], problem)
			}
		}
	}
}

func linkProblem(t *testing.T, page, link string) string {
	t.Helper()
	if strings.Contains(link, "://") {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	file := page
	if target != "" {
		file = path.Join(path.Dir(page), target)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		return "there is no such file"
	}
	if anchor != "" && strings.HasSuffix(file, ".md") && !slices.Contains(anchors(read(t, file)), anchor) {
		return "there is no such heading or anchor"
	}
	return ""
}

// anchors returns the names by which a page's headings, and the places that it
// marks with <a id="...">, are linked.
func anchors(text string) []string {
	var out []string
	for _, m := range mdAnchor.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out = append(out, m[1])
	}
	for _, m := range mdHeading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(slug, " ", "-"))
	}
	return out
}

// code returns all that a page shows as code.
func code(text string) string {
	blocks := strings.Join(fence.FindAllString(text, -1), "\n")
	return blocks + "\n" + strings.Join(codeSpan.FindAllString(fence.ReplaceAllString(text, ""), -1), "\n")
}

// planned are flags and commands that the documents name as not there yet. One
// that has come has to leave this list, and the sentence that says so.
var planned []string

// foreign are flags of other programs in the examples.
var foreign = []string{
	"--advertise-address",  // kube-apiserver
	"--authorization-mode", // kube-apiserver
	"--cert-dir", "--token-auth-file",
	"--certificate-key",        // kubeadm
	"--certificate-renewal",    // kubeadm
	"--skip-phases",            // kubeadm
	"--client-name",            // kubeadm
	"--control-plane",          // kubeadm
	"--control-plane-endpoint", // kubeadm
	"--discovery-token-ca-cert-hash",
	"--endpoint-reconciler-type", // kube-apiserver
	"--etcd-upgrade",             // kubeadm
	"--org",                      // kubeadm
	"--patches",                  // kubeadm
	"--upload-certs",             // kubeadm
	"--bump-revision",            // etcdutl
	"--client-cert-auth",         // etcd
	"--config",                   // kubeadm
	"--no-password",              // etcdctl
	"--prefix",                   // etcdctl
	"--pid",                      // tail
	"--endpoint-reconciler-type", // kube-apiserver
	"--endpoints",                // etcdctl
	"--no-install-recommends",    // apt-get
	"--mark-compacted",           // etcdutl
	"--service-account-issuer",   // kube-apiserver
	"--service-cluster-ip-range", // kube-apiserver
	"--service-account-key-file", // kube-apiserver
	"--service-account-signing-key-file",
	"--shutdown-delay-duration",   // kube-apiserver
	"--shutdown-send-retry-after", // kube-apiserver
	"--type",                      // kubectl
}

// program is what the sidecar understands, as its source says.
type program struct{ flags, commands []string }

// readProgram finds the flags (the name is the second argument of StringVar and
// the like) and the commands (the first word of Use).
func readProgram(t *testing.T) program {
	t.Helper()
	out := program{flags: []string{"--help"}}
	for _, s := range sources(t) {
		if !within("cmd/sidecar")(s) || s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				out.addFlag(n)
			case *ast.KeyValueExpr:
				out.addCommand(n)
			}
			return true
		})
	}
	if len(out.flags) < 20 || len(out.commands) < 6 {
		t.Fatalf("got %d flags and %d commands: this test no longer understands cmd/sidecar", len(out.flags), len(out.commands))
	}
	return out
}

func (p *program) addFlag(call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 3 || !strings.HasSuffix(strings.TrimSuffix(sel.Sel.Name, "P"), "Var") {
		return
	}
	if name := literal(call.Args[1]); name != "" {
		p.flags = append(p.flags, "--"+name)
	}
}

func (p *program) addCommand(kv *ast.KeyValueExpr) {
	if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Use" {
		name, _, _ := strings.Cut(literal(kv.Value), " ")
		p.commands = append(p.commands, "sidecar "+name)
	}
}

// literal returns the text of a string, or of the first of several that are
// joined.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return literal(e.X)
	case *ast.BasicLit:
		return strings.Trim(e.Value, "\"`")
	}
	return ""
}

func TestFlagsInTheDocumentsExist(t *testing.T) {
	known := readProgram(t).flags
	for _, page := range pages(t) {
		for _, m := range flagWord.FindAllStringSubmatch(code(read(t, page)), -1) {
			flag := "--" + m[1]
			if !slices.Contains(known, flag) && !slices.Contains(planned, flag) && !slices.Contains(foreign, flag) {
				t.Errorf("%s: there is no flag %s", page, flag)
			}
		}
	}
	wantStillPlanned(t, known)
}

func TestCommandsInTheDocumentsExist(t *testing.T) {
	known := readProgram(t).commands
	for _, page := range pages(t) {
		for _, m := range subcommand.FindAllStringSubmatch(code(read(t, page)), -1) {
			if !slices.Contains(known, m[1]) && !slices.Contains(planned, m[1]) {
				t.Errorf("%s: there is no command %q", page, m[1])
			}
		}
	}
	wantStillPlanned(t, known)
}

func wantStillPlanned(t *testing.T, known []string) {
	t.Helper()
	for _, p := range planned {
		if slices.Contains(known, p) {
			t.Errorf("%q exists now: take it out of planned, and correct the documents", p)
		}
	}
}

// TestEveryReasonIsExplained: people look up what /readyz says.
func TestEveryReasonIsExplained(t *testing.T) {
	operations := read(t, "docs/operations.md")
	reasons := allReasons(t)
	for _, reason := range reasons {
		if !strings.Contains(operations, "**`"+reason+"`**") {
			t.Errorf("docs/operations.md does not explain %s", reason)
		}
	}
}

// allReasons returns the names of the reasons that the packages of the protocol declare.
func allReasons(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"protocol/reason.go", "protocol/warn/reason.go", "protocol/publish/reason.go"} {
		reasons := constants(parse(t, name).file)
		if len(reasons) < 6 {
			t.Fatalf("got %d reasons: this test no longer understands %s", len(reasons), name)
		}
		out = append(out, reasons...)
	}
	return out
}

// reasonLink is a link to the explanation of a reason.
var reasonLink = regexp.MustCompile("\\[`([A-Z][A-Za-z]+)`\\]\\(([a-z.-]*)#([^)]+)\\)")

// TestReasonsAreWhereLinksLead: who follows the link of an alert finds its reason in that section, not in another one.
func TestReasonsAreWhereLinksLead(t *testing.T) {
	reasons := allReasons(t)
	found := 0
	for _, page := range pages(t) {
		for _, m := range reasonLink.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if m[2] != "" {
				target = path.Join(path.Dir(page), m[2])
			}
			if target != "docs/operations.md" || !slices.Contains(reasons, m[1]) {
				continue
			}
			if found++; !strings.Contains(sectionOf(read(t, target), m[3]), "**`"+m[1]+"`**") {
				t.Errorf("%s: the section #%s of docs/operations.md does not explain %s", page, m[3], m[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("got %d links: this test no longer understands the pages", found)
	}
}

// sectionOf returns the text of a page from a heading to the next one.
func sectionOf(text, anchor string) string {
	text = fence.ReplaceAllString(text, "")
	headings := mdHeading.FindAllStringSubmatchIndex(text, -1)
	for i, h := range headings {
		if anchors(text[h[0]:h[1]])[0] != anchor {
			continue
		}
		if i+1 < len(headings) {
			return text[h[0]:headings[i+1][0]]
		}
		return text[h[0]:]
	}
	return ""
}

// TestEveryRuleIsExplained: so do they with the rules that /status names.
func TestEveryRuleIsExplained(t *testing.T) {
	operations := read(t, "docs/operations.md")
	for _, name := range ruleConstants(t) {
		if !strings.Contains(operations, "\n- **[`"+name+"`](protocol.md#rule-"+kebab(name)+")**: ") {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
}

func constants(f *ast.File) []string {
	var out []string
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				out = append(out, v.Names[0].Name)
			}
		}
	}
	return out
}
