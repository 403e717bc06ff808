package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The digest covers each field of a service, but neither comments in the files nor the
// values of variables.
func TestDigest(t *testing.T) {
	const text = `apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: api}
role: kubernetes_controller
process: {command: [/bin/sh, "--address=$(NODE_ADDRESS)"], env: [{name: A, value: b}]}
readiness: {httpGet: {url: "https://$(NODE_ADDRESS):6443/readyz", insecureSkipVerify: true}, periodSeconds: 1}
stopTimeout: 10s
`
	loaded := func(text string) []Service {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "10-api.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := Digest(loaded(text))
	if !strings.HasPrefix(want, "sha256:") || Digest(nil) != "" {
		t.Errorf("got %q, and %q without services", want, Digest(nil))
	}
	if got := Digest(loaded("# of this node\n" + strings.ReplaceAll(text, "name: api", "name: \"api\""))); got != want {
		t.Errorf("another comment and other quotes: got %s, want %s", got, want)
	}
	for _, change := range [][2]string{
		{"name: api", "name: apis"}, {"kubernetes_controller", "kubernetes_worker"}, {"/bin/sh", "/bin/true"}, {"value: b", "value: c"},
		{"$(NODE_ADDRESS)\"]", "192.0.2.1\"]"}, {":6443/", ":6444/"}, {"insecureSkipVerify: true", "insecureSkipVerify: false"}, {"10s", "11s"},
		{"periodSeconds: 1", "periodSeconds: 2"},
	} {
		if got := Digest(loaded(strings.Replace(text, change[0], change[1], 1))); got == want {
			t.Errorf("%q for %q does not change the digest", change[1], change[0])
		}
	}
}
