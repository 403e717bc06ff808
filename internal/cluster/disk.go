package cluster

import (
	"os"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
)

// disk is the part of a data directory that a resident changes. Without SyncDir, a power
// failure may undo a change; WriteMarker returns when the marker is on the disk.
type disk interface {
	Path() string // of the directory
	Etcd() string // where etcd keeps its data
	Left() string // where the data of a member that left is moved to

	ReadMarker() (datadir.Marker, error)
	WriteMarker(m datadir.Marker) error
	EtcdBegun() bool        // the directory contains a log of etcd
	EtcdBootstrapped() bool // the log of a new cluster contains its first member

	Present(path string) bool
	RemoveAll(path string) error
	// Rename fails if there is a directory with something in it already.
	Rename(from, to string) error
	SyncDir(path string) error
}

// realDisk is the disk of a data directory.
type realDisk struct{ *datadir.Dir }

// openDisk locks the data directory at a path.
func openDisk(path string) (*datadir.Dir, disk, error) {
	dir, err := datadir.Open(path)
	return dir, realDisk{dir}, err
}

func (realDisk) Present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (realDisk) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (realDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (realDisk) SyncDir(path string) error    { return durable.SyncDir(path) }
