package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

func TestLoadDirectories(t *testing.T) {
	t.Run("a mounted ConfigMap is read once, through its links", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "..2026/bundle.yaml", goodHeader)
		writeFile(t, dir, "..2026/a.yaml", goodObject)
		for link, to := range map[string]string{"..data": "..2026", "bundle.yaml": "..data/bundle.yaml", "a.yaml": "..data/a.yaml"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := Load(dir)
		if err != nil || len(b.Objects) != 1 {
			t.Errorf("got %v, %v, want one object", b, err)
		}
	})
	t.Run("a link to a parent directory is an error", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		if err := os.Symlink(".", filepath.Join(dir, "loop")); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "directories deep") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("two such links are not followed again and again", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		for _, link := range []string{"one", "two"} {
			if err := os.Symlink(".", filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		l := loader{fsys: os.DirFS(dir), shown: func(name string) string { return name }, problems: &strict.Problems{}, seen: map[Key]strict.Place{}, texts: strict.Texts{}}
		l.dir(".", 0)
		if l.entries > 2*maxEntries || l.problems.Err() == nil {
			t.Errorf("got %d entries, %v", l.entries, l.problems.Err())
		}
		fingerprint(dir) // returns
	})
	t.Run("a link without a target is an error", func(t *testing.T) {
		dir := writeBundle(t, map[string]string{"a.yaml": goodObject})
		if err := os.Symlink("nowhere", filepath.Join(dir, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		wantProblems(t, dir, []string{"b.yaml: no such file"})
	})
	t.Run("a directory that does not exist", func(t *testing.T) {
		_, err := Load(filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want ErrNotExist", err)
		}
	})
	t.Run("a file instead of a directory", func(t *testing.T) {
		dir := writeBundle(t, nil)
		if _, err := Load(filepath.Join(dir, "bundle.yaml")); err == nil {
			t.Error("got no error")
		}
	})
}
