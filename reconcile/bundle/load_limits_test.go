package bundle

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

// loadFile loads a bundle of one more file than bundle.yaml.
func loadFile(name, text string) (*Bundle, error) {
	return loaderOf(fstest.MapFS{headerFile: {Data: []byte(goodHeader)}, name: {Data: []byte(text)}}, path.Base).load()
}

// allocated returns how many bytes do allocates in all, freed or not.
func allocated(do func()) uint64 {
	read := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	do()
	return read() - before
}

// TestLoadIsBounded: a file of 10 MiB can make a parser use gigabytes, and can have
// as many problems as lines.
func TestLoadIsBounded(t *testing.T) {
	const size, allowed = 10 << 20, 512 << 20
	repeat := func(s string) string { return strings.Repeat(s, (size-100)/len(s)) }
	configMaps := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%d, namespace: n}\ndata:\n  x: %q\n", i, strings.Repeat("text ", 200))
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		file, text string
		want       string // empty: it loads
	}{
		"ordinary manifests":                {"x.yaml", configMaps(9500), ""},
		"values of a flow sequence":         {"x.yaml", "[" + repeat("1,") + "]", "x.yaml: has more than 262144 values"},
		"values of a block sequence":        {"x.yaml", repeat("- 1\n"), "x.yaml: has more than 262144 values"},
		"empty keys":                        {"x.yaml", "a: {" + repeat("? ,") + "}", "x.yaml: has more than 262144 values"},
		"documents":                         {"x.yaml", repeat("---\nx\n"), "x.yaml: has more than 262144 values"},
		"values of a JSON array":            {"x.json", "[" + repeat("1,") + "]", "x.json: has more than 262144 values"},
		"members of a JSON object":          {"x.json", "{" + repeat(`"":1,`) + "}", "x.json: has more than 262144 values"},
		"as many values as are taken":       {"x.yaml", "a: [" + strings.Repeat("1,", strict.MaxValues-4) + "1]", "x.yaml:1: apiVersion is missing"},
		"sequences within sequences":        {"x.yaml", strings.Repeat("[", strict.MaxValues), "max depth"},
		"sequences within sequences, block": {"x.yaml", strings.Repeat("- ", strict.MaxValues-1), "max depth"},
		"a billion laughs":                  {"x.yaml", laughs(), "its aliases expand to too many values"},
		"duplicate keys":                    {"x.yaml", strings.Repeat("k: v\n", 20000), "more problems, which"},
		"a long key, twice":                 {"x.yaml", strings.Repeat("? "+strings.Repeat("k", 1<<18)+"\n: v\n", 2), "x.yaml:3: duplicate key"},
		"comments":                          {"x.yaml", strings.Repeat("#\n", strict.MaxValues), "has no manifests"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			used := allocated(func() { _, err = loadFile(tt.file, tt.text) })
			t.Logf("%d MiB", used>>20)
			if used > allowed {
				t.Errorf("got %d MiB allocated, want at most %d", used>>20, allowed>>20)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %.500v, want %q", err, tt.want)
			}
			wantReadable(t, err)
		})
	}
	t.Run("many files", func(t *testing.T) {
		l := loader{fsys: fstest.MapFS{"x.yaml": {Data: []byte(goodObject)}}, shown: path.Base, problems: &strict.Problems{}, seen: map[Key]strict.Place{}, texts: strict.Texts{}}
		l.size = maxBundleSize - len(goodObject) + 1 // of the files before
		l.file("x.yaml")
		if err := l.problems.Err(); err == nil || err.Error() != "x.yaml: makes the bundle larger than 64 MiB" {
			t.Errorf("got %v", err)
		}
	})
}

// wantReadable fails if an error of Load can flood a log or a page, or has a
// problem without a place.
func wantReadable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var loadErr *LoadError
	if !errors.As(err, &loadErr) {
		t.Fatalf("got %T %v, want a LoadError", err, err)
	}
	if len(loadErr.Problems) == 0 || len(loadErr.Problems) > strict.MaxProblems+1 {
		t.Errorf("got %d problems", len(loadErr.Problems))
	}
	for i, p := range loadErr.Problems {
		if p.Message == "" || len(p.Message) > strict.MaxMessage+10 || !utf8.ValidString(p.Message) || strings.ContainsAny(p.Message, "\n\r") {
			t.Errorf("got message %q", p.Message)
		}
		if p.File == "" && i < strict.MaxProblems || p.Line < 0 || p.Document < 0 {
			t.Errorf("got no place: %+v", p)
		}
	}
}

// TestLoadHidesValues: problems never quote a value, which may be a Secret's.
func TestLoadHidesValues(t *testing.T) {
	const password = "hunter2"
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\nstringData:\n"
	tests := map[string]struct{ file, text, want string }{
		"an alias":                {"x.yaml", secret + "  password: *hunter2\n", "text that begins with * must be quoted"},
		"a tag":                   {"x.yaml", secret + "  password: !hunter2\n", "text that begins with ! must be quoted"},
		"a tag with a handle":     {"x.yaml", secret + "  password: !a!hunter2\n", "not valid YAML"},
		"binary":                  {"x.yaml", secret + "  password: !!binary " + encoded + "\n", "!!binary"},
		"no bool":                 {"x.yaml", secret + "  password: !!bool hunter2\n", "is not true or false"},
		"no number":               {"x.yaml", secret + "  password: !!int hunter2\n", "is not a whole number"},
		"no fraction":             {"x.yaml", secret + "  password: !!float hunter2\n", "JSON has no such number"},
		"a number that is long":   {"x.yaml", secret + "  password: 18446744073709551615\n", "if it is text, put it in quotes"},
		"a JSON number":           {"x.json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"p":4815162342e9999}}`, "a number is too large"},
		"JSON that is cut off":    {"x.json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"p":"hunter2`, "not valid JSON"},
		"quotes that do not end":  {"x.yaml", secret + "  password: \"hunter2\n", "not valid YAML"},
		"what follows the quotes": {"x.yaml", secret + "  password: \"a\"hunter2\n", "not valid YAML"},
		"an escape":               {"x.yaml", secret + "  password: \"\\hunter2\"\n", "not valid YAML"},
		"a colon":                 {"x.yaml", secret + "  password: a: hunter2\n", "not valid YAML"},
		"a duplicate":             {"x.yaml", secret + "  password: a\n  password: hunter2\n", `duplicate key "password"`},
		"a label":                 {"x.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {a: [hunter2]}}\n", `the value of "a"`},
		"twice":                   {"x.yaml", secret + "  p: hunter2\n---\n" + secret + "  p: hunter2\n", "defined twice"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := loadFile(tt.file, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, value := range []string{password, encoded, "4815162342", "1844674407"} {
				if strings.Contains(err.Error(), value) {
					t.Errorf("a Secret's value is shown: %v", err)
				}
			}
			wantReadable(t, err)
		})
	}
}
