package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/lockstep-dev/lockstep"

// root is the repository's top directory, as seen from this one.
var root = filepath.Join("..", "..")

// source is a Go file of this repository.
type source struct {
	path    string // from the top directory, with slashes
	dir     string // its package; "." for the top directory
	pkg     string // the name in its package clause
	doc     string // the package comment, if it is here
	test    bool
	imports []string
	set     *token.FileSet // has the positions in file
	file    *ast.File
}

// line returns the line of a place in the file.
func (s source) line(at token.Pos) int { return s.set.Position(at).Line }

// skipped reports whether a directory has nothing that we wrote as source: it
// was built, belongs to git, or has inputs of tests.
func skipped(dir string) bool {
	return slices.Contains([]string{"bin", ".git", "testdata"}, path.Base(dir))
}

// All tests read the same files, and do not change what these return.
var (
	allFiles   = sync.OnceValues(walk)
	allSources = sync.OnceValues(parseAll)
	textOf     = map[string]string{} // what read returned, by file
)

// files returns the paths of all files, from the top directory, with slashes.
func files(t *testing.T) []string {
	t.Helper()
	out, err := allFiles()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(out)
}

func walk() ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && skipped(rel):
			return filepath.SkipDir
		case d.Type().IsRegular() && rel != ".git": // a file in a work tree
			out = append(out, rel)
		}
		return nil
	})
	return out, err
}

// read returns a file's text.
func read(t *testing.T, name string) string {
	t.Helper()
	if text, ok := textOf[name]; ok {
		return text
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	textOf[name] = string(text)
	return textOf[name]
}

// sources returns every Go file, of the modules below test/ too.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := allSources()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("got %d Go files: this test no longer sees the repository", len(out))
	}
	return slices.Clone(out)
}

func parseAll() ([]source, error) {
	names, err := allFiles()
	if err != nil {
		return nil, err
	}
	var out []source
	for _, name := range names {
		if strings.HasSuffix(name, ".go") {
			s, err := parseFile(name)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// parse returns one Go file.
func parse(t *testing.T, name string) source {
	t.Helper()
	out, err := parseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parseFile(name string) (source, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	out := source{
		path: name, dir: path.Dir(name), pkg: f.Name.Name, doc: f.Doc.Text(),
		test: strings.HasSuffix(name, "_test.go"), set: set, file: f,
	}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		out.imports = append(out.imports, imported)
	}
	return out, nil
}

func TestPackagesSayWhatTheyOwn(t *testing.T) {
	docs := map[string]string{}
	names := map[string]string{}
	for _, s := range sources(t) {
		if !s.test {
			docs[s.dir] += s.doc
			names[s.dir] = s.pkg
		}
	}
	for dir, name := range names {
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(docs[dir], want) {
			t.Errorf("%s: its comment begins with %q, want %q", dir, firstWords(docs[dir]), want)
		}
	}
}

func firstWords(s string) string {
	return strings.Join(strings.Fields(s)[:min(4, len(strings.Fields(s)))], " ")
}

// unwanted is a word that some files must not have.
type unwanted struct {
	word  *regexp.Regexp
	why   string
	spare func(name string) bool // files that may have it; nil: none
}

// unwantedEverywhere are put together of halves, so that this file does not break them.
var unwantedEverywhere = []unwanted{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "write the issue's number, or do it", isConfig},
	{regexp.MustCompile(`(^|[\s"'=:(` + "`" + `])/(wor` + `k|ro` + `ot|ho` + `me|Use` + `rs)/`), "a path of one machine", isDockerfile},
	{regexp.MustCompile(`(proxy\.golang|sum\.golang|registry\.npmjs)` + `\.org`), "the host of a package registry", nil},
	{regexp.MustCompile(`\b(gcr|ghcr|quay|docker|registry\.k8s)` + `\.io/`), "the host of an image registry", nil},
}

// isConfig is for what names the word to forbid it.
func isConfig(name string) bool { return name == ".golangci.yml" }

// isDockerfile: paths there are those of the image.
func isDockerfile(name string) bool { return name == "Dockerfile" }

// TestImageHasNoBase: an image with a base needs its digest here, and an update for each of the base's.
func TestImageHasNoBase(t *testing.T) {
	from := regexp.MustCompile(`(?m)^FROM (.+)$`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	if len(from) == 0 || from[len(from)-1][1] != "scratch" {
		t.Errorf("the last stage of the Dockerfile is not from scratch: %q", from)
	}
}

func TestNothingThatDoesNotBelong(t *testing.T) {
	for _, name := range files(t) {
		if text := read(t, name); isText(text) {
			wantNone(t, name, text, unwantedEverywhere)
		}
	}
}
