package bundle

import (
	"strings"
	"testing"
)

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
