package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// testName is a test as docs/testing.md names it: directory and function.
var testName = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")

// TestNamedTestsExist: who looks up the test of a fault finds it.
func TestNamedTestsExist(t *testing.T) {
	defined := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, name := range files(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		for _, m := range declaration.FindAllStringSubmatch(read(t, name), -1) {
			defined[dir+"."+m[1]] = true
		}
	}
	named := testName.FindAllStringSubmatch(read(t, "docs/testing.md"), -1)
	if len(named) < 50 {
		t.Errorf("docs/testing.md names %d tests only; is the pattern still right?", len(named))
	}
	for _, m := range named {
		if id := m[1] + "." + m[2]; !defined[id] {
			t.Errorf("docs/testing.md names %s, which does not exist", id)
		}
	}
}
