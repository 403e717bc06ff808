package bundle

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/protocol"
)

// owned writes a bundle that only this user can change: bundle.yaml, and storage/csi.yaml.
func owned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "storage"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bundle.yaml": watchHeader, "storage/csi.yaml": watchObject + "one}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Who can change one file of a bundle chooses what the leader writes into the cluster.
func TestBundle_Paths(t *testing.T) {
	chmod := func(name string, mode fs.FileMode) func(string) error {
		return func(dir string) error { return os.Chmod(filepath.Join(dir, name), mode) }
	}
	chown := func(name string) func(string) error {
		return func(dir string) error { return os.Chown(filepath.Join(dir, name), 4711, 0) }
	}
	for name, tc := range map[string]struct {
		change func(dir string) error
		root   bool     // only root can make it
		want   []string // what was found, without the directory
	}{
		"as it should be":          {func(string) error { return nil }, false, nil},
		"the directory":            {chmod("", 0o777), false, []string{" can be changed by every user (mode 0777)"}},
		"the directory of a part":  {chmod("storage", 0o757), false, []string{"/storage can be changed by every user (mode 0757)"}},
		"bundle.yaml":              {chmod("bundle.yaml", 0o602), false, []string{"/bundle.yaml can be changed by every user (mode 0602)"}},
		"a manifest":               {chmod("storage/csi.yaml", 0o666), false, []string{"/storage/csi.yaml can be changed by every user (mode 0666)"}},
		"a manifest of a stranger": {chown("storage/csi.yaml"), true, []string{"/storage/csi.yaml belongs to the user with the ID 4711, who can change it"}},
		"a part of a stranger":     {chown("storage"), true, []string{"/storage belongs to the user with the ID 4711, who can change it"}},
		"a link to what all can change": {func(dir string) error {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n"), 0o600); err != nil {
				return err
			}
			if err := os.Chmod(other, 0o666); err != nil {
				return err
			}
			return os.Symlink(other, filepath.Join(dir, "b.yaml"))
		}, false, []string{"/other can be changed by every user (mode 0666)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.root && os.Geteuid() != 0 {
				t.Skip("needs root, to give files to other users")
			}
			dir := owned(t)
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			b, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			found := trusted.FindAll(b.Paths())
			if len(found) != len(tc.want) {
				t.Fatalf("got %+v, want %q", found, tc.want)
			}
			for i, want := range tc.want {
				if got := found[i].Path + " " + found[i].What; !strings.HasSuffix(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	b, err := Builtin()
	if err != nil || len(trusted.FindAll(b.Paths())) > 0 {
		t.Errorf("the built-in bundle: got %v, %v", trusted.FindAll(b.Paths()), err)
	}
}

// A sidecar warns when it starts, and when a bundle that it reads again can be changed by others; not twice.
func TestCurrent_warns(t *testing.T) {
	dir := owned(t)
	csi := filepath.Join(dir, "storage", "csi.yaml")
	chmod := func(mode fs.FileMode) {
		if err := os.Chmod(csi, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0o666)
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := NewCurrent(dir, b, protocol.Local{}, slog.New(slog.NewTextHandler(&log, nil)))
	warned := func(when string, want int) {
		t.Helper()
		text := log.String()
		log.Reset()
		if got := strings.Count(text, "others can change the bundle"); got != want || want > 0 && !strings.Contains(text, csi+" can be changed by every user") {
			t.Errorf("%s: want %d warnings in %q", when, want, text)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Run(ended) // it ends before it reads the directory
	warned("at the start", 1)
	c.loaded(Load(dir))
	warned("read again", 0)
	chmod(0o600)
	c.loaded(Load(dir))
	warned("repaired", 0)
	chmod(0o606)
	c.loaded(Load(dir))
	warned("open again", 1)
}

// A change of the mode or the owner alone is noticed too.
func TestFingerprint_trust(t *testing.T) {
	dir := owned(t)
	before := fingerprint(dir)
	for _, name := range []string{"storage", "storage/csi.yaml"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o707); err != nil {
			t.Fatal(err)
		}
		now := fingerprint(dir)
		if now == before {
			t.Errorf("the mode of %s is not noticed", name)
		}
		if before = now; os.Geteuid() != 0 {
			continue // only root can give it to another user
		}
		if err := os.Chown(filepath.Join(dir, name), 4711, 4711); err != nil {
			t.Fatal(err)
		}
		if now = fingerprint(dir); now == before {
			t.Errorf("the owner of %s is not noticed", name)
		}
		before = now
	}
}
