package cluster

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// brittleDisk is a disk that loses unsynced writes. Files and directories are paths; a
// directory is not empty if there is a path below it.
type brittleDisk struct {
	datadir.Layout
	now, synced          map[string]bool
	marker, syncedMarker datadir.Marker
	// lives are the member IDs in the logs that etcd stored, by path.
	lives, syncedLives map[string]string
	done               int         // operations until now
	kill               func() bool // nil: never
}

// killed ends a run at an operation.
type killed struct{}

func newBrittleDisk() *brittleDisk {
	return &brittleDisk{
		Layout: "/data", now: map[string]bool{}, synced: map[string]bool{}, lives: map[string]string{}, syncedLives: map[string]string{},
	}
}

func (d *brittleDisk) Path() string { return string(d.Layout) }

// count ends the run before an operation, if it is to.
func (d *brittleDisk) count() {
	d.done++
	if d.kill != nil && d.kill() {
		panic(killed{})
	}
}

func (d *brittleDisk) ReadMarker() (datadir.Marker, error) {
	if d.marker.Phase == "" {
		return datadir.Marker{}, datadir.ErrNoMarker
	}
	return d.marker, nil
}

func (d *brittleDisk) WriteMarker(m datadir.Marker) error {
	d.count()
	d.marker = m
	return d.SyncDir(d.Path()) // it is renamed there, which is synced
}

func (d *brittleDisk) EtcdBegun() bool        { return d.lives[d.Etcd()] != "" }
func (d *brittleDisk) EtcdBootstrapped() bool { return d.EtcdBegun() }

func (d *brittleDisk) Present(path string) bool {
	for p := range d.now {
		if p == path || strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

func (d *brittleDisk) RemoveAll(path string) error {
	d.count()
	maps.DeleteFunc(d.now, func(p string, _ bool) bool { return p == path || strings.HasPrefix(p, path+"/") })
	delete(d.lives, path)
	return nil
}

func (d *brittleDisk) Rename(from, to string) error {
	d.count()
	if !d.Present(from) {
		return fs.ErrNotExist
	}
	for p := range d.now {
		if strings.HasPrefix(p, to+"/") {
			return fs.ErrExist
		}
	}
	for p := range maps.Clone(d.now) {
		if rest, found := strings.CutPrefix(p, from); found && (rest == "" || rest[0] == '/') {
			delete(d.now, p)
			d.now[to+rest] = true
		}
	}
	if life := d.lives[from]; life != "" {
		d.lives[to] = life
		delete(d.lives, from)
	}
	return nil
}

func (d *brittleDisk) SyncDir(string) error {
	d.count()
	d.synced, d.syncedLives, d.syncedMarker = maps.Clone(d.now), maps.Clone(d.lives), d.marker
	return nil
}

// place puts the marker there from the beginning.
func (d *brittleDisk) place(m datadir.Marker) { d.marker, d.syncedMarker = m, m }

// begin makes etcd create its database, and not its log yet.
func (d *brittleDisk) begin() {
	d.now[d.Etcd()+"/member/snap"], d.synced[d.Etcd()+"/member/snap"] = true, true
}

// write makes etcd store and sync an entry of a member.
func (d *brittleDisk) write(member string) {
	d.now[d.Etcd()+"/member"], d.lives[d.Etcd()] = true, member
	d.synced, d.syncedLives = maps.Clone(d.now), maps.Clone(d.lives)
}

// lose undoes all unsynced writes, as a power failure does.
func (d *brittleDisk) lose() {
	d.now, d.lives, d.marker = maps.Clone(d.synced), maps.Clone(d.syncedLives), d.syncedMarker
}

// TestDisk holds the disk that other tests use to the behavior of the real one.
func TestDisk(t *testing.T) {
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	brittle := newBrittleDisk()
	for name, tc := range map[string]struct {
		disk disk
		fill func(path string)
	}{
		"a data directory": {realDisk{dir}, func(path string) {
			if err := os.MkdirAll(filepath.Join(path, "member", "snap"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		"the one of tests": {brittle, func(path string) { brittle.now[path+"/member/snap"] = true }},
	} {
		t.Run(name, func(t *testing.T) { checkDisk(t, tc.disk, tc.fill) })
	}
}

func checkDisk(t *testing.T, d disk, fill func(path string)) {
	t.Helper()
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %t, want %t", what, got, want)
		}
	}
	if _, err := d.ReadMarker(); err == nil {
		t.Error("got a marker of an empty directory")
	}
	m := datadir.Marker{
		Version: 1, Cluster: "c", Node: "a", Address: "127.0.0.1", Intent: datadir.Join, Phase: datadir.Enrolled, MemberID: "a1",
	}
	if err := d.WriteMarker(m); err != nil {
		t.Fatal(err)
	}
	if got, err := d.ReadMarker(); err != nil || got != m {
		t.Errorf("got %+v, %v", got, err)
	}
	want("no data is there", d.Present(d.Etcd()), false)
	want("removing nothing fails", d.RemoveAll(d.Etcd()) != nil, false)
	want("moving nothing fails", d.Rename(d.Etcd(), d.Left()) != nil, true)
	fill(d.Etcd())
	want("data is there", d.Present(d.Etcd()), true)
	want("data without a log has one", d.EtcdBegun(), false)
	want("moving it fails", d.Rename(d.Etcd(), d.Left()) != nil, false)
	want("it is still there", d.Present(d.Etcd()), false)
	want("it is where it was moved", d.Present(d.Left()), true)
	fill(d.Etcd())
	want("moving it to where data is fails", d.Rename(d.Etcd(), d.Left()) != nil, true)
	want("it is lost by that", d.Present(d.Etcd()), true)
	want("removing it fails", d.RemoveAll(d.Left()) != nil, false)
	want("it is there after that", d.Present(d.Left()), false)
	want("moving it then fails", d.Rename(d.Etcd(), d.Left()) != nil, false)
	want("syncing fails", d.SyncDir(d.Path()) != nil, false)
}
