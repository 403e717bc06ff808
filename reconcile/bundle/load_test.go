package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/protocol"
)

const goodHeader = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.4.0\n"

const goodObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {x: \"1\"}\n"

// writeBundle writes files; a bundle.yaml is added where there is none.
func writeBundle(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if _, has := files["bundle.yaml"]; !has {
		writeFile(t, dir, "bundle.yaml", goodHeader)
	}
	for name, text := range files {
		writeFile(t, dir, name, text)
	}
	return dir
}

func writeFile(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t testing.TB, files map[string]string) *Bundle {
	t.Helper()
	b, err := Load(writeBundle(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(b *Bundle) []string {
	var out []string
	for _, o := range b.Objects {
		out = append(out, fmt.Sprintf("%s/%s", o.GetKind(), o.GetName()))
	}
	return out
}

func TestLoad(t *testing.T) {
	b := mustLoad(t, map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: base}\nrelease: 1.4.0-rc.1+g0abc\nminReconcilerRelease: 1.3.0\nminApiserverRelease: v1.2.0\nprunePolicy: Immediately\n",
		"b.yaml":      "# nothing\n---\n" + goodObject + "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: n}\n",
		"deep/er/c.yml": `apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: n}}
  - apiVersion: v1
    kind: List
    items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: n}}]
`,
		"e.json":         "{\"apiVersion\":\"v1\",\n\t\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"e\",\"namespace\":\"n\"},\"data\":{\"x\":\"\\ud83d\\ude00\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"f\",\"namespace\":\"n\"}}",
		"z.yaml":         "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: g, namespace: n, creationTimestamp: null}\nspec: {replicas: 3, paused: false, mode: 0644, share: 0.5, when: 2020-01-01, word: yes, quoted: \"5\", nothing: null}\nstatus: {}\n",
		"README.md":      "not a manifest",
		".hidden/x.yaml": "not even: [YAML",
	})
	want := []string{"ConfigMap/a", "ConfigMap/b", "ConfigMap/c", "ConfigMap/d", "ConfigMap/e", "ConfigMap/f", "Deployment/g"}
	if diff := cmp.Diff(want, names(b)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if b.Name != "base" || b.Version.String() != "1.4.0-rc.1+g0abc" || !b.PruneImmediately ||
		b.Constraints != (protocol.Constraints{MinReconciler: protocol.Release{Major: 1, Minor: 3}, MinApiserver: protocol.Release{Major: 1, Minor: 2}}) {
		t.Errorf("got %+v", b)
	}
	if got := b.Objects[4].Object["data"].(map[string]any)["x"]; got != "😀" {
		t.Errorf("got %q from JSON", got)
	}
	wantSpec := map[string]any{
		"replicas": int64(3), "paused": false, "mode": int64(420), "share": 0.5, "when": "2020-01-01", "word": "yes", "quoted": "5",
	}
	if diff := cmp.Diff(wantSpec, b.Objects[6].Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

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
			"bundle.yaml:1: apiVersion has to be lockstep.dev/v1", "bundle.yaml:2: kind has to be Bundle", `bundle.yaml:3: unknown field "metadata.label"`,
			"bundle.yaml:3: metadata.name", `bundle.yaml:4: release: version "1.4": want major.minor.patch`, "bundle.yaml:5: minReconcilerRelease: ",
			"bundle.yaml:6: prunePolicy has to be", `bundle.yaml:7: unknown field "extra"`,
		}},
		{"a constraint above the release", map[string]string{"bundle.yaml": goodHeader + "minApiserverRelease: 1.4.1\n"}, []string{"bundle.yaml:5: minApiserverRelease 1.4.1 is above the release 1.4.0"}},
		{"the other constraint above the release", map[string]string{"bundle.yaml": goodHeader + "minReconcilerRelease: 2.0.0\n"}, []string{"bundle.yaml:5: minReconcilerRelease 2.0.0 is above the release 1.4.0"}},
		{"two documents in bundle.yaml", map[string]string{"bundle.yaml": goodHeader + "---\n" + goodHeader}, []string{"bundle.yaml: has 2 documents"}},
		{"bundle.yaml is a list", map[string]string{"bundle.yaml": "- a\n"}, []string{"bundle.yaml:1: has to be a mapping"}},
		{"a bundle.yaml in a sub-folder", map[string]string{"sub/bundle.yaml": goodHeader}, []string{"sub/bundle.yaml:1: kind Bundle belongs in bundle.yaml"}},
		{"duplicate keys", map[string]string{"x.yaml": goodObject + "data: {y: \"1\"}\n"}, []string{`x.yaml:5: duplicate key "data", first at line 4`}},
		{"duplicate keys in JSON", map[string]string{"x.json": "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\n\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}"}, []string{`x.json:2: duplicate key "kind", first at line 1`}},
		{"two manifests of one object", map[string]string{"x.yaml": goodObject + "---\n" + goodObject, "y/z.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`}, []string{
			`x.yaml:6: ConfigMap "n/a" is defined twice, first at`, "x.yaml:1 (document 2)", `y/z.json:1: ConfigMap "n/a" is defined twice`}},
		{"two versions of one object", map[string]string{"x.yaml": "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: x}\n---\napiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: x}\n"}, []string{`x.yaml:5: StorageClass "x" is defined twice`}},
		{"no name", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: n\n"}, []string{"x.yaml:4: lacks metadata.name"}},
		{"no metadata", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, []string{"x.yaml:1: lacks metadata"}},
		{"generateName", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  generateName: x-\n"}, []string{"x.yaml:5: generateName cannot be used"}},
		{"no kind, no apiVersion", map[string]string{"x.yaml": "metadata: {name: x}\n"}, []string{"x.yaml:1: lacks apiVersion", "x.yaml:1: lacks kind"}},
		{"what only the server sets", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  uid: abc\n  resourceVersion: \"5\"\n"}, []string{"x.yaml:5: metadata.uid is set by the server", "x.yaml:6: metadata.resourceVersion"}},
		{"what Lockstep sets", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    lockstep.dev/content-epoch: \"5\"\n  labels:\n    applyset.kubernetes.io/part-of: x\n"}, []string{"x.yaml:6: metadata.annotations", "x.yaml:8: metadata.labels"}},
		{"a label that is no string", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: {on: true, five: 5}\n"}, []string{`x.yaml:5: metadata.labels: the value of "on"`, `x.yaml:5: metadata.labels: the value of "five"`}},
		{"a status and nothing else", map[string]string{"x.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nstatus: {loadBalancer: {}}\n"}, []string{"x.yaml:4: has a status and nothing else"}},
		{"a document that is no mapping", map[string]string{"x.yaml": goodObject + "---\njust text\n"}, []string{"x.yaml:6: is not an object"}},
		{"a list without items", map[string]string{"x.yaml": "apiVersion: v1\nkind: List\nitem: []\n"}, []string{"x.yaml:3: unknown field", "x.yaml:1: a List needs items"}},
		{"tabs", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: x\n"}, []string{"x.yaml:4: not valid YAML: tabs cannot indent"}},
		{"invalid UTF-8", map[string]string{"x.yaml": goodObject + "# \xff\n"}, []string{"x.yaml:5: is not valid UTF-8"}},
		{"broken JSON", map[string]string{"x.json": "{\"apiVersion\":\"v1\",\n\"kind\":"}, []string{"x.json:2: not valid JSON: unexpected EOF"}},
		{"JSON that is cut off", map[string]string{"x.json": "{\"a\":[1,"}, []string{"x.json:1: not valid JSON"}},
		{"JSON that is nested too deeply", map[string]string{"x.json": strings.Repeat("[", 1<<10)}, []string{"x.json:1: not valid JSON: nested more than"}},
		{"an alias within itself", map[string]string{"x.yaml": "a: &x [*x]\n"}, []string{"x.yaml:1: nested too deeply"}},
		{"a billion laughs", map[string]string{"x.yaml": laughs()}, []string{"nested too deeply, or its aliases stand for too much"}},
		{"a merge key", map[string]string{"x.yaml": goodObject + "a: &x {b: c}\nd:\n  <<: *x\n"}, []string{"x.yaml:7: merge keys"}},
		{"a key that is no string", map[string]string{"x.yaml": goodObject + "5: x\n"}, []string{"x.yaml:5: the key 5 has to be a string"}},
		{"a number that JSON does not have", map[string]string{"x.yaml": goodObject + "spec: {a: .inf, b: .nan}\n"}, []string{"x.yaml:5: value: JSON has no such number"}},
		{"a tag", map[string]string{"x.yaml": goodObject + "spec: !!binary aGk=\n"}, []string{"x.yaml:5: value"}},
		{"a file that is too large", map[string]string{"x.yaml": strings.Repeat("# 0123456789\n", 1<<20)}, []string{"x.yaml: is larger than 10 MiB; split it"}},
		{"several files: all problems at once", map[string]string{"x.yaml": "metadata: {name: x}\n", "y.yaml": "a: [\n", "bundle.yaml": goodHeader + "extra: 1\n"}, []string{
			"bundle.yaml:5", "x.yaml:1: lacks apiVersion", "x.yaml:1: lacks kind", "y.yaml:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantProblems(t, writeBundle(t, tt.files), tt.want) })
	}
	t.Run("an empty folder", func(t *testing.T) {
		dir := t.TempDir()
		wantProblems(t, dir, []string{dir + ": has no bundle.yaml, which says the bundle's release"})
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
	var load *LoadError
	var problem *Problem
	if !errors.As(err, &load) || !errors.As(err, &problem) {
		t.Fatalf("got %v, %v, want a LoadError", b, err)
	}
	got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no problem says %q:\n%s", w, got)
		}
	}
	if len(load.Problems) > 2*len(want)+1 {
		t.Errorf("got %d problems:\n%s", len(load.Problems), got)
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

func TestLoadFolders(t *testing.T) {
	t.Run("a mounted ConfigMap is read once, through its links", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "..2026/bundle.yaml", goodHeader)
		writeFile(t, dir, "..2026/a.yaml", goodObject)
		for link, target := range map[string]string{"..data": "..2026", "bundle.yaml": "..data/bundle.yaml", "a.yaml": "..data/a.yaml"} {
			if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := Load(dir)
		if err != nil || len(b.Objects) != 1 {
			t.Errorf("got %v, %v, want one object", b, err)
		}
	})
	t.Run("a link that leads back up is an error", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		if err := os.Symlink(".", filepath.Join(dir, "loop")); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "folders deep") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("two of them are not followed again and again", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		for _, link := range []string{"one", "two"} {
			if err := os.Symlink(".", filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		l := loader{fsys: os.DirFS(dir), shown: func(name string) string { return name }, problems: &problems{}, seen: map[key]place{}}
		l.folder(".", 0)
		if l.entries > 2*maxEntries || l.problems.err() == nil {
			t.Errorf("got %d entries met, %v", l.entries, l.problems.err())
		}
		look(dir) // comes back
	})
	t.Run("a link that leads nowhere is an error", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		if err := os.Symlink("nowhere", filepath.Join(dir, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		wantProblems(t, dir, []string{"b.yaml: no such file"})
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		_, err := Load(filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want ErrNotExist", err)
		}
	})
	t.Run("a file instead of a folder", func(t *testing.T) {
		dir := writeBundle(t, nil)
		if _, err := Load(filepath.Join(dir, "bundle.yaml")); err == nil {
			t.Error("got no error")
		}
	})
}

func TestDigest(t *testing.T) {
	base := map[string]string{"a.yaml": goodObject + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"}
	want := mustLoad(t, base).Digest
	if len(want) != len("sha256:")+64 {
		t.Errorf("got digest %q", want)
	}
	same := map[string]map[string]string{
		"the same in other files, order and form": {
			"1.json": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"}}`,
			"2.yaml": "# comment\nkind: ConfigMap\napiVersion: v1\ndata:\n  x: '1'\nmetadata:\n  namespace: n\n  name: a\n",
		},
		"another name, and a prerelease of the release": {"a.yaml": base["a.yaml"], "bundle.yaml": strings.Replace(strings.Replace(goodHeader, "test", "other", 1), "1.4.0", "1.4.0-rc.1", 1)},
	}
	for name, files := range same {
		if got := mustLoad(t, files).Digest; got != want {
			t.Errorf("%s: got another digest", name)
		}
	}
	other := map[string]map[string]string{
		"another value":      {"a.yaml": strings.Replace(base["a.yaml"], "\"1\"", "\"2\"", 1)},
		"another type":       {"a.yaml": strings.Replace(base["a.yaml"], "\"1\"", "1", 1)},
		"another release":    {"a.yaml": base["a.yaml"], "bundle.yaml": strings.Replace(goodHeader, "1.4.0", "1.4.1", 1)},
		"another constraint": {"a.yaml": base["a.yaml"], "bundle.yaml": goodHeader + "minApiserverRelease: 1.0.0\n"},
		"one object less":    {"a.yaml": goodObject},
	}
	for name, files := range other {
		if got := mustLoad(t, files).Digest; got == want {
			t.Errorf("%s: got the same digest", name)
		}
	}
}

// Item 1 of issue 2, and what else the example has to be.
func TestBuiltin(t *testing.T) {
	b, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("its constraints are not above its release", func(t *testing.T) {
		if err := b.Constraints.Validate(b.Version.Release); err != nil {
			t.Error(err)
		}
	})
	t.Run("it has what DESIGN 6.1 names", func(t *testing.T) {
		kinds := map[string]int{}
		for _, o := range b.Objects {
			kinds[o.GetKind()]++
		}
		want := map[string]int{
			"ClusterRole": 2, "ClusterRoleBinding": 2, "CSIDriver": 1, "PriorityClass": 2,
			"RuntimeClass": 1, "ServiceAccount": 1, "StorageClass": 2,
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
	})
	t.Run("from the repository it is the same", func(t *testing.T) {
		dir, err := Load("builtin")
		if err != nil || dir.Digest != b.Digest {
			t.Errorf("got %v, %v, want the digest of the embedded one", dir, err)
		}
	})
}

// A key of stringData that a later bundle drops has to go, so it is applied as
// the data that it becomes.
func TestLoadSecrets(t *testing.T) {
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n"
	for _, tt := range []struct{ name, body, want string }{
		{"text", "stringData: {a: x}", `{"data":{"a":"eA=="}}`},
		{"text wins over data", "data: {a: b2xk, b: b2xk}\nstringData: {a: x}", `{"data":{"a":"eA==","b":"b2xk"}}`},
		{"no text, for the server to refuse", "stringData: {a: 5}", `{"stringData":{"a":5}}`},
		{"no data", "type: Opaque", `{"type":"Opaque"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := mustLoad(t, map[string]string{"s.yaml": head + tt.body + "\n"}).Objects[0].DeepCopy().Object
			for _, common := range []string{"apiVersion", "kind", "metadata"} {
				delete(obj, common)
			}
			got, err := json.Marshal(obj)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}
