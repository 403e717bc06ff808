package trusted

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblem(t *testing.T) {
	own := judge{user: os.Geteuid(), group: os.Getegid()}
	for _, tt := range []struct {
		name  string
		who   judge
		given func(t *testing.T, dir string) string // returns the path; dir is safe
		want  string                                // a part of the problem; empty: there is none
	}{
		{"a file", own, func(t *testing.T, dir string) string { return file(t, dir, 0o644) }, ""},
		{"a device", own, func(*testing.T, string) string { return os.DevNull }, ""},
		{"no file", own, func(_ *testing.T, dir string) string { return filepath.Join(dir, "none") }, ""},
		{"a file that every user can write", own, func(t *testing.T, dir string) string { return file(t, dir, 0o646) }, "type: chmod o-w "},
		{"a group that is this user's", own, func(t *testing.T, dir string) string { return file(t, dir, 0o664) }, ""},
		{"the directory", own, func(t *testing.T, dir string) string {
			path := file(t, dir, 0o644)
			chmod(t, dir, 0o757)
			return path
		}, "can be changed by every user"},
		{"the directory above", own, func(t *testing.T, dir string) string {
			path := file(t, mkdir(t, dir), 0o644)
			chmod(t, dir, 0o757)
			return path
		}, "can be changed by every user"},
		{"the sticky directory above", own, func(t *testing.T, dir string) string {
			path := file(t, mkdir(t, dir), 0o644)
			chmod(t, dir, 0o777|fs.ModeSticky)
			return path
		}, ""},
		{"a link to a file that every user can write", own, func(t *testing.T, dir string) string {
			return link(t, dir, filepath.Base(file(t, dir, 0o666)))
		}, "type: chmod o-w "},
		{"a link into a directory that every user can write", own, func(t *testing.T, dir string) string {
			other := mkdir(t, dir)
			path := link(t, dir, file(t, other, 0o644))
			chmod(t, other, 0o777)
			return path
		}, "can be changed by every user"},
		{"a link to itself", own, func(t *testing.T, dir string) string { return link(t, dir, "link") }, ""},
		{"the file of another user", judge{user: os.Geteuid() + 1, group: os.Getegid()}, func(t *testing.T, dir string) string {
			if os.Geteuid() == 0 { // whose files are trusted
				own := file(t, dir, 0o600)
				if err := os.Lchown(own, 4711, 0); err != nil {
					t.Fatal(err)
				}
				return own
			}
			return file(t, dir, 0o600)
		}, "belongs to the user with the ID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := problemOf(tt.who, tt.given(t, t.TempDir()))
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// problemOf is Problem for another user.
func problemOf(j judge, path string) string {
	found := j.find(path)
	if found == nil {
		return ""
	}
	return found.Path + " " + found.What + "; type: " + found.Remedy
}

// Only root can make what these look at.
func TestProblem_owners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	const other = 4711
	root := judge{}
	t.Run("a group of others", func(t *testing.T) {
		path := file(t, t.TempDir(), 0o664)
		if err := os.Lchown(path, 0, other); err != nil {
			t.Fatal(err)
		}
		if got := problemOf(root, path); !strings.Contains(got, "can be changed by the group with the ID 4711") || !strings.Contains(got, "type: chmod g-w "+path) {
			t.Errorf("got %q", got)
		}
		if got := problemOf(judge{user: 1, group: other}, path); got != "" {
			t.Errorf("for a user of that group: %q", got)
		}
	})
	t.Run("a link that another user made in a sticky directory", func(t *testing.T) {
		dir := t.TempDir()
		path := link(t, dir, file(t, mkdir(t, dir), 0o600))
		chmod(t, dir, 0o777|fs.ModeSticky)
		if err := os.Lchown(path, other, other); err != nil {
			t.Fatal(err)
		}
		if got := problemOf(root, path); !strings.Contains(got, path+" belongs to the user with the ID 4711") {
			t.Errorf("got %q", got)
		}
	})
}

func file(t *testing.T, dir string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
	return path
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "dir")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, dir, to string) string {
	t.Helper()
	path := filepath.Join(dir, "link")
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// chmod sets the mode, whatever the umask is.
func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// Programs of the system need the mode of its directories, such as rsyslog that of /var/log.
func TestRestrict(t *testing.T) {
	for path, want := range map[string]string{
		"/var/log": "choose a path that is not below /var/log", "/tmp": "choose a path that is not below /tmp",
		"/var/log/own": "if no other user has, type: chmod g-w /var/log/own",
	} {
		if got := (&Finding{Path: path, Remedy: restrict("g-w", path)}).Advice(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
