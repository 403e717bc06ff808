package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// Layout names the files of the data directory at a path.
type Layout string

// Marker returns the path of the marker.
func (l Layout) Marker() string { return filepath.Join(string(l), markerFile) }

// Members returns the path of the list of members.
func (l Layout) Members() string { return filepath.Join(string(l), membersFile) }

// Roles returns the path of this node's last roles.
func (l Layout) Roles() string { return filepath.Join(string(l), rolesFile) }

// Program returns the directory into which the program of the etcd member may be unpacked.
func (l Layout) Program() string { return filepath.Join(string(l), programDir) }

// Recording returns the path of the flight recorder's content from when the sidecar ended by an error.
func (l Layout) Recording() string { return filepath.Join(string(l), recordingFile) }

// Ended returns the path of the reason for which the last sidecar ended.
func (l Layout) Ended() string { return filepath.Join(string(l), endedFile) }

// Running returns the path of the file of the sidecar that runs.
func (l Layout) Running() string { return filepath.Join(string(l), runningFile) }

// PKI returns the directory of the certificates and keys.
func (l Layout) PKI() string { return filepath.Join(string(l), "pki") }

// CACert returns the path of the cluster's CA certificate.
func (l Layout) CACert() string { return filepath.Join(l.PKI(), pki.CACertFile) }

// CAKey returns the path of the CA's key.
func (l Layout) CAKey() string { return filepath.Join(l.PKI(), pki.CAKeyFile) }

// NextKey returns the path of the key of the CA that is to replace the present one.
func (l Layout) NextKey() string { return filepath.Join(l.PKI(), pki.NextKeyFile) }

// NodeCert returns the path of this node's certificate.
func (l Layout) NodeCert() string { return filepath.Join(l.PKI(), pki.NodeCertFile) }

// NodeKey returns the path of the key of this node's certificate.
func (l Layout) NodeKey() string { return filepath.Join(l.PKI(), pki.NodeKeyFile) }

// Snapshots returns the directory of the snapshots that the node saves by itself, if no other one is chosen.
func (l Layout) Snapshots() string { return filepath.Join(string(l), snapshotsDir) }

// DatabaseSize returns the size of the database of the etcd member, in bytes.
func (l Layout) DatabaseSize() (int64, error) {
	info, err := os.Stat(l.Database())
	if err != nil {
		return 0, fmt.Errorf("size of the database of etcd: %w", err)
	}
	return info.Size(), nil
}

// Etcd returns the data directory of the etcd member.
func (l Layout) Etcd() string { return filepath.Join(string(l), "etcd") }

// Left returns where the data of a member that left is moved to.
func (l Layout) Left() string { return l.Etcd() + ".left" }

// Database returns the path of the database of the etcd member. This name and the log's are etcd's own: it does not export them.
func (l Layout) Database() string { return filepath.Join(l.Etcd(), "member", "snap", "db") }

func (l Layout) wal() string { return filepath.Join(l.Etcd(), "member", "wal") }

const (
	recordingFile = "recording.gz"
	endedFile     = "ended.json"
	runningFile   = "running.json"

	markerFile  = "cluster.json"
	membersFile = "members.json"
	rolesFile   = "roles.json"
	programDir  = "program"

	snapshotsDir = "snapshots"
)
