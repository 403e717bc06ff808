package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/protocol"
)

const goodHeader = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.4.0\n"

const goodObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {x: \"1\"}\n"

// writeBundle writes files, and a bundle.yaml if there is none among them.
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
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
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

func namesOf(b *Bundle) []string {
	var out []string
	for _, o := range b.Objects {
		out = append(out, fmt.Sprintf("%s/%s", o.GetKind(), o.GetName()))
	}
	return out
}

func TestLoad(t *testing.T) {
	b := mustLoad(t, map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: base}\nrelease: 1.4.0-rc.1+g0abc\nminReconcilerRelease: 1.3.0\nminApiserverRelease: v1.2.0\napiserverVersion: \"1.36\"\nprunePolicy: Immediately\n",
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
	if diff := cmp.Diff(want, namesOf(b)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if b.Name != "base" || b.Version.String() != "1.4.0-rc.1+g0abc" || !b.PruneImmediately || b.APIServer != "1.36" || b.Local().APIServer != "1.36" ||
		b.Constraints != (protocol.Constraints{MinReconciler: protocol.Release{Major: 1, Minor: 3}, MinAPIServer: protocol.Release{Major: 1, Minor: 2}}) {
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
