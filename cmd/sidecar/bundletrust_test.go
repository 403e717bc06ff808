package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// A bundle with a file that every user can change is valid; bundle validate warns.
func TestBundleValidate_untrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		mode os.FileMode
		want string // in the error output; empty: nothing
	}{
		"of this user": {0o644, ""},
		"of all":       {0o666, "/csi.yaml can be changed by every user (mode 0666); if no other user has, type: chmod o-w "},
	} {
		for _, output := range []string{"text", "json"} {
			t.Run(name+" "+output, func(t *testing.T) {
				dir := t.TempDir()
				mustWrite(t, filepath.Join(dir, "bundle.yaml"), "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: acme}\nrelease: 1.2.0\n")
				csi := filepath.Join(dir, "csi.yaml")
				mustWrite(t, csi, "apiVersion: v1\nkind: Namespace\nmetadata: {name: acme}\n")
				if err := os.Chmod(csi, tc.mode); err != nil {
					t.Fatal(err)
				}
				code, _, errs := call(t, program{}, "bundle", "validate", dir, "-o", output)
				if code != console.ExitOK || (tc.want == "") != (errs == "") || !strings.Contains(errs, tc.want) {
					t.Errorf("got %d and %q, want %q", code, errs, tc.want)
				}
			})
		}
	}
}
