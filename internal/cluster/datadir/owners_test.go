package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// needsRoot skips a test that gives files to another user.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give files to another user")
	}
}

// What another user owns in the directory, that user can change whatever its mode is. A directory that
// was given back without its content is such a one.
func TestLock_owners(t *testing.T) {
	needsRoot(t)
	given := func(path func(Layout) string) func(Layout) error {
		return func(l Layout) error {
			return filepath.WalkDir(path(l), func(path string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(path, 4711, 4711))
			})
		}
	}
	made := func(path func(Layout) string) func(Layout) error {
		return func(l Layout) error { return errors.Join(os.Mkdir(path(l), 0o700), given(path)(l)) }
	}
	root := func(l Layout) string { return string(l) }
	for name, tc := range map[string]struct {
		change func(Layout) error
		want   func(Layout) string // the path that is refused; nil: none is
	}{
		"as it was":       {func(Layout) error { return nil }, nil},
		"snapshots":       {made(Layout.Snapshots), nil},
		"a service's":     {made(func(l Layout) string { return filepath.Join(string(l), "service") }), nil},
		"everything":      {given(root), root},
		"all but the top": {func(l Layout) error { return errors.Join(given(root)(l), os.Chown(string(l), 0, 0)) }, Layout.Marker},
		"pki":             {given(Layout.PKI), Layout.PKI},
		"a key":           {given(Layout.NodeKey), Layout.NodeKey},
		"the log of etcd": {given(Layout.wal), Layout.wal},
		"program":         {made(Layout.Program), Layout.Program},
		"a link": {func(l Layout) error {
			return errors.Join(os.Symlink("/", l.Program()), os.Lchown(l.Program(), 4711, 4711))
		}, Layout.Program},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newMember(t)
			if err := tc.change(l); err != nil {
				t.Fatal(err)
			}
			d, err := Lock(string(l))
			if err == nil {
				_ = d.Close()
			}
			if tc.want == nil {
				must(t, err)
				return
			}
			want := tc.want(l) + `" belongs to the user with the ID 4711, who can change it: if no other user has, type: chown -R 0 ` + string(l)
			if _, ok := errors.AsType[*RefusedError](err); !ok || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// The path of the directory may be a link to it.
func TestLock_ownerBehindLink(t *testing.T) {
	needsRoot(t)
	l, _ := newMember(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, errors.Join(os.Symlink(string(l), link), os.Chown(l.PKI(), 4711, 0)))
	d, err := Lock(link)
	if err == nil {
		_ = d.Close()
	}
	if err == nil || !strings.HasSuffix(err.Error(), "type: chown -R 0 "+string(l)) {
		t.Errorf("got %v", err)
	}
}

// A directory above is not given away with all below it.
func TestLock_ownerAbove(t *testing.T) {
	needsRoot(t)
	parent := t.TempDir()
	must(t, os.Chown(parent, 4711, 0))
	d, err := Lock(filepath.Join(parent, "data"))
	if err == nil {
		_ = d.Close()
	}
	if err == nil || !strings.HasSuffix(err.Error(), "type: chown 0 "+parent) {
		t.Errorf("got %v", err)
	}
}
