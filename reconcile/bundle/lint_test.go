package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const lintHeader = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: b}\nrelease: 1.0.0\n"

// crd has the kind Widget; SCOPE is replaced.
const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, names: {kind: Widget, plural: widgets}, scope: SCOPE}
`

func TestValidate(t *testing.T) {
	widget := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
	for name, tc := range map[string]struct {
		text string
		want []string // without the directory
	}{
		"nothing": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {a: \"1\"}\n", nil},
		"no namespace": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			[]string{`a.yaml:5: ConfigMap "a" has no metadata.namespace: there is no default (document 2)`}},
		"of an unknown kind":     {widget, nil},
		"of a CRD":               {strings.Replace(crd, "SCOPE", "Namespaced", 1) + "---\n" + widget, []string{`a.yaml:6: Widget "w" has no metadata.namespace: there is no default (document 2)`}},
		"of a CRD that has none": {strings.Replace(crd, "SCOPE", "Cluster", 1) + "---\n" + widget, nil},
		"one too many": {strings.Replace(crd, "SCOPE", "Cluster", 1) + "---\n" + strings.Replace(widget, "name: w", "name: w, namespace: n", 1),
			[]string{`a.yaml:6: Widget "w" has a metadata.namespace, but the CRD in this bundle has the scope Cluster (document 2)`}},
		"numbers": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {replicas: 3, on: true, text: x}\n",
			[]string{`a.yaml:1: ConfigMap "a": data["on"] must be a text: write it in quotes`, `a.yaml:1: ConfigMap "a": data["replicas"] must be a text: write it in quotes`}},
		"a number in a Secret": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: n}\nstringData: {pin: 1234}\n",
			[]string{`a.yaml:1: Secret "a": stringData["pin"] must be a text: write it in quotes`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeBundle(t, map[string]string{"bundle.yaml": lintHeader, "a.yaml": tc.text})
			if _, err := Load(dir); err != nil {
				t.Fatal(err)
			}
			var got []string
			_, err := Validate(dir)
			if all, ok := errors.AsType[*LoadError](err); ok {
				for _, p := range all.Problems {
					got = append(got, strings.TrimPrefix(p.Error(), dir+"/"))
					if want := 1 + strings.Count(strings.Join(strings.SplitAfter(tc.text, "\n")[:p.Line], ""), "---"); p.Document != want {
						t.Errorf("got document %d in %v, want %d", p.Document, p, want)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if _, err := Validate(BuiltinName); err != nil {
		t.Errorf("built-in: %v", err)
	}
}

// Faults of several kinds, also one that makes bundle.yaml or another file unreadable, are found in one go.
func TestValidate_allAtOnce(t *testing.T) {
	const number = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: n}\ndata: {a: 1}\n"
	dir := writeBundle(t, map[string]string{
		"bundle.yaml": strings.Replace(lintHeader, "release:", "relase:", 1),
		"a.yaml":      strings.Replace(number, "NAME", "a", 1) + "---\nkind: ConfigMap\n",
		"b.yaml":      "[",
		"c.yaml":      strings.Replace(number, "NAME", "c", 1),
	})
	b, err := Validate(dir)
	if b != nil || err == nil {
		t.Fatalf("got %v, %v", b, err)
	}
	if _, loaded := Load(dir); loaded == nil || loaded.Error() != err.Error() {
		t.Errorf("Load finds\n%v\nand Validate\n%v", loaded, err)
	}
	for _, want := range []string{
		`bundle.yaml:4: unknown field "relase"`, `a.yaml:1: ConfigMap "a": data["a"] must be a text`, "a.yaml:6: apiVersion is missing", "b.yaml:2: not valid YAML",
		`c.yaml:1: ConfigMap "c": data["a"] must be a text`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %s in\n%v", want, err)
		}
	}
}

// A directory above a bundle has files of all kinds. None of them is examined.
func TestLoad_oneDirectoryTooHigh(t *testing.T) {
	dir := writeBundle(t, map[string]string{"package.json": "{}", "acme/bundle.yaml": lintHeader, "acme/a.yaml": "x", "docs/a.yaml": "y"})
	if err := os.Remove(filepath.Join(dir, headerFile)); err != nil {
		t.Fatal(err)
	}
	_, err := Load(dir)
	if want := dir + ": has no bundle.yaml, which names the bundle's release; did you mean " + dir + "/acme?"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
