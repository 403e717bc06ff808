package backup_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Another user expects a snapshot in an open directory, and makes files and links with the names that
// it could have until it is complete: nothing is written into them or through them, and the snapshot
// is readable by this user only.
func TestSave_besideFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	file, victim := filepath.Join(dir, "snapshot"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file + ".part", file + ".tmp"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	client, err := etcd.NewClient(etcd.Config{Endpoints: etcdtest.New(t).Endpoints(), Prefix: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := backup.Save(t.Context(), client, file); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "kept" {
		t.Errorf("the file of the link has %d bytes, %v", len(got), err)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("got %v, %v", info, err)
	}
	// A link of the name itself, also to nothing, counts as a file that exists.
	if err := os.Symlink(filepath.Join(dir, "nothing"), file+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Save(t.Context(), client, file+"2"); err == nil {
		t.Error("a snapshot was written through a link")
	}
}

// Another user makes a newer snapshot, or can change the newest one: --latest passes over it. In a
// directory that is open to others, none can be trusted.
func TestLatest_ofOthers(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "snapshot-20260101T000000.000Z.db"), filepath.Join(dir, "snapshot-20260102T000000.000Z.db")
	client, err := etcd.NewClient(etcd.Config{Endpoints: etcdtest.New(t).Endpoints(), Prefix: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for _, file := range []string{first, second} {
		if _, err := backup.Save(t.Context(), client, file); err != nil {
			t.Fatal(err)
		}
	}
	if newest, passed, err := backup.Latest(dir, time.Now()); err != nil || newest.File != second || len(passed) != 0 {
		t.Errorf("got %+v, %v, %v", newest, passed, err)
	}
	if err := os.Chmod(second, 0o666); err != nil {
		t.Fatal(err)
	}
	newest, passed, err := backup.Latest(dir, time.Now())
	if err != nil || newest.File != first || len(passed) != 1 || !strings.Contains(passed[0].Error(), "name the file in place of --latest") {
		t.Errorf("got %+v, %v, %v", newest, passed, err)
	}
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if newest, _, err := backup.Latest(dir, time.Now()); err == nil {
		t.Errorf("in a directory that is open to others: got %+v", newest)
	}
}
