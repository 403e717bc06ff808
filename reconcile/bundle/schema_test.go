package bundle

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A custom resource is checked against the CRD in its bundle.
func TestValidate_schema(t *testing.T) {
	for line := range strings.Lines(readFile(t, "testdata/schema/specs")) {
		spec, problems, _ := strings.Cut(strings.TrimSpace(line), " |")
		var want []string
		if problems != "" {
			want = strings.Split(strings.TrimSpace(problems), "; ")
		}
		if diff := cmp.Diff(want, schemaProblems(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: "+spec+"\n")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", spec, diff)
		}
	}
	for text, want := range map[string][]string{
		"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1, note: a}\nextra: 1\n": {"extra is an unknown field"},
		"apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: w}\nanything: {size: 1}\n":                nil,
		"apiVersion: example.com/v1beta1\nkind: Widget\nmetadata: {name: w}\n":                                {"the CRD in this bundle does not serve version v1beta1, only v1, v2"},
		"apiVersion: other.example.com/v1\nkind: Widget\nmetadata: {name: w}\n":                               nil,
	} {
		if diff := cmp.Diff(want, schemaProblems(t, text)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

// schemaProblems returns what Validate finds in a bundle with the CRD and one object.
func schemaProblems(t *testing.T, manifest string) (out []string) {
	t.Helper()
	_, err := Validate(writeBundle(t, map[string]string{"bundle.yaml": lintHeader, "crd.yaml": readFile(t, "testdata/schema/crd.yaml"), "a.yaml": manifest}))
	all, ok := errors.AsType[*LoadError](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	if err == nil {
		return nil
	}
	for _, p := range all.Problems {
		_, problem, _ := strings.Cut(p.Error(), `Widget "w": `)
		problem, _, found := strings.Cut(problem, " (the schema of the CRD in this bundle)")
		if !found {
			t.Errorf("got %v", p)
		}
		out = append(out, problem)
	}
	return out
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
