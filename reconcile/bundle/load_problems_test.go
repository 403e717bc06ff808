package bundle

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadProblems(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  []string // each problem: file:line and a part of the message
	}{
		{"an empty bundle.yaml", map[string]string{"bundle.yaml": "", "x.yaml": goodObject}, []string{"bundle.yaml: has 0 documents"}},
		{"no manifests", map[string]string{}, []string{": has no manifests"}},
		{"a misspelt field", map[string]string{"bundle.yaml": goodHeader + "minApiServerRelease: 1.0.0\n"}, []string{`bundle.yaml:5: unknown field "minApiServerRelease"`}},
		{"all that is wrong with bundle.yaml", map[string]string{"bundle.yaml": "apiVersion: v1\nkind: Bundel\nmetadata: {name: \"\", label: x}\nrelease: 1.4\nminReconcilerRelease: 1.02.3\nprunePolicy: Never\nextra: 1\n"}, []string{
			"bundle.yaml:1: apiVersion must be lockstep.dev/v1", "bundle.yaml:2: kind must be Bundle", `bundle.yaml:3: unknown field "metadata.label"`,
			"bundle.yaml:3: metadata.name", `bundle.yaml:4: release: version "1.4": want major.minor.patch`, "bundle.yaml:5: minReconcilerRelease: ",
			"bundle.yaml:6: prunePolicy must be", `bundle.yaml:7: unknown field "extra"`,
		}},
		{"a constraint above the release", map[string]string{"bundle.yaml": goodHeader + "minApiserverRelease: 1.4.1\n"}, []string{"bundle.yaml:5: minApiserverRelease 1.4.1 is above the release 1.4.0"}},
		{"the other constraint above the release", map[string]string{"bundle.yaml": goodHeader + "minReconcilerRelease: 2.0.0\n"}, []string{"bundle.yaml:5: minReconcilerRelease 2.0.0 is above the release 1.4.0"}},
		{"a version of kube-apiserver that is a number", map[string]string{"bundle.yaml": goodHeader + "apiserverVersion: 1.36\n"}, []string{"bundle.yaml:5: apiserverVersion must be text, in quotes"}},
		{"a version of kube-apiserver that is none", map[string]string{"bundle.yaml": goodHeader + "apiserverVersion: v1.36\n"}, []string{`bundle.yaml:5: apiserverVersion "v1.36" must be MAJOR.MINOR`}},
		{"no version of kube-apiserver", map[string]string{"bundle.yaml": goodHeader + "apiserverVersion: \"\"\n"}, []string{`bundle.yaml:5: apiserverVersion "" must be MAJOR.MINOR`}},
		{"two documents in bundle.yaml", map[string]string{"bundle.yaml": goodHeader + "---\n" + goodHeader}, []string{"bundle.yaml: has 2 documents"}},
		{"bundle.yaml is a list", map[string]string{"bundle.yaml": "- a\n"}, []string{"bundle.yaml:1: must be a mapping"}},
		{"a bundle.yaml in a subdirectory", map[string]string{"sub/bundle.yaml": goodHeader}, []string{"sub/bundle.yaml:1: kind Bundle belongs in bundle.yaml"}},
		{"duplicate keys", map[string]string{"x.yaml": goodObject + "data: {y: \"1\"}\n"}, []string{`x.yaml:5: duplicate key "data", first at line 4`}},
		{"duplicate keys in JSON", map[string]string{"x.json": "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\n\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}"}, []string{`x.json:2: duplicate key "kind", first at line 1`}},
		{"two manifests of one object", map[string]string{"x.yaml": goodObject + "---\n" + goodObject, "y/z.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`}, []string{
			`x.yaml:6: ConfigMap "n/a" is defined twice, first at`, "x.yaml:1 (document 2)", `y/z.json:1: ConfigMap "n/a" is defined twice`}},
		{"two versions of one object", map[string]string{"x.yaml": "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: x}\n---\napiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: x}\n"}, []string{`x.yaml:5: StorageClass "x" is defined twice`}},
		{"no name", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: n\n"}, []string{"x.yaml:4: metadata.name is missing"}},
		{"no metadata", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, []string{"x.yaml:1: metadata is missing"}},
		{"a Kustomization", map[string]string{"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [x.yaml]\n"}, []string{"kustomization.yaml:1: a bundle contains objects, no Kustomization"}},
		{"generateName", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  generateName: x-\n"}, []string{"x.yaml:5: generateName cannot be used"}},
		{"no kind, no apiVersion", map[string]string{"x.yaml": "metadata: {name: x}\n"}, []string{"x.yaml:1: apiVersion is missing", "x.yaml:1: kind is missing"}},
		{"what only the server sets", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  uid: abc\n  resourceVersion: \"5\"\n"}, []string{"x.yaml:5: metadata.uid is set by the server", "x.yaml:6: metadata.resourceVersion"}},
		{"what Lockstep sets", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    lockstep.dev/content-epoch: \"5\"\n  labels:\n    applyset.kubernetes.io/part-of: x\n"}, []string{"x.yaml:6: metadata.annotations", "x.yaml:8: metadata.labels"}},
		{"a label that is no string", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: {on: true, five: 5}\n"}, []string{`x.yaml:5: metadata.labels: the value of "on"`, `x.yaml:5: metadata.labels: the value of "five"`}},
		{"a status and nothing else", map[string]string{"x.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nstatus: {loadBalancer: {}}\n"}, []string{"x.yaml:4: has a status and nothing else"}},
		{"a document that is no mapping", map[string]string{"x.yaml": goodObject + "---\njust text\n"}, []string{"x.yaml:6: is not an object"}},
		{"a list without items", map[string]string{"x.yaml": "apiVersion: v1\nkind: List\nitem: []\n"}, []string{"x.yaml:3: unknown field", "x.yaml:1: items of the List are missing"}},
		{"tabs", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: x\n"}, []string{"x.yaml:4: not valid YAML: tabs cannot indent"}},
		{"invalid UTF-8", map[string]string{"x.yaml": goodObject + "# \xff\n"}, []string{"x.yaml:5: is not valid UTF-8"}},
		{"broken JSON", map[string]string{"x.json": "{\"apiVersion\":\"v1\",\n\"kind\":"}, []string{"x.json:2: not valid JSON: unexpected EOF"}},
		{"JSON that is cut off", map[string]string{"x.json": "{\"a\":[1,"}, []string{"x.json:1: not valid JSON"}},
		{"JSON that is nested too deeply", map[string]string{"x.json": strings.Repeat("[", 1<<10)}, []string{"x.json:1: not valid JSON: nested more than"}},
		{"an alias within itself", map[string]string{"x.yaml": "a: &x [*x]\n"}, []string{"x.yaml:1: nested too deeply"}},
		{"a billion laughs", map[string]string{"x.yaml": laughs()}, []string{"nested too deeply, or its aliases expand to too many values"}},
		{"a merge key", map[string]string{"x.yaml": goodObject + "a: &x {b: c}\nd:\n  <<: *x\n"}, []string{"x.yaml:7: merge keys"}},
		{"a key that is no string", map[string]string{"x.yaml": goodObject + "5: x\n"}, []string{"x.yaml:5: the key 5 must be a string"}},
		{"a number that JSON does not have", map[string]string{"x.yaml": goodObject + "spec: {a: .inf, b: .nan}\n"}, []string{"x.yaml:5: value: JSON has no such number"}},
		{"a tag", map[string]string{"x.yaml": goodObject + "spec: !!binary aGk=\n"}, []string{"x.yaml:5: value"}},
		{"a file that is too large", map[string]string{"x.yaml": strings.Repeat("# 0123456789\n", 1<<20)}, []string{"x.yaml: is larger than 10 MiB; split it"}},
		{"several files: all problems at once", map[string]string{"x.yaml": "metadata: {name: x}\n", "y.yaml": "a: [\n", "bundle.yaml": goodHeader + "extra: 1\n"}, []string{
			"bundle.yaml:5", "x.yaml:1: apiVersion is missing", "x.yaml:1: kind is missing", "y.yaml:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantProblems(t, writeBundle(t, tt.files), tt.want) })
	}
	t.Run("an empty directory", func(t *testing.T) {
		dir := t.TempDir()
		wantProblems(t, dir, []string{dir + ": has no bundle.yaml, which names the bundle's release"})
	})
	t.Run("no bundle.yaml", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "x.yaml", goodObject)
		wantProblems(t, dir, []string{": has no bundle.yaml"})
	})
}

func wantProblems(t *testing.T, dir string, want []string) {
	t.Helper()
	b, err := Load(dir)
	var loadErr *LoadError
	var problem *Problem
	if !errors.As(err, &loadErr) || !errors.As(err, &problem) {
		t.Fatalf("got %v, %v, want a LoadError", b, err)
	}
	got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no problem has %q:\n%s", w, got)
		}
	}
	if len(loadErr.Problems) > 2*len(want)+1 {
		t.Errorf("got %d problems:\n%s", len(loadErr.Problems), got)
	}
}

// laughs is nine levels of ten aliases each.
func laughs() string {
	var b strings.Builder
	b.WriteString("l0: &l0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "l%d: &l%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 10), ", "))
	}
	return b.String()
}
