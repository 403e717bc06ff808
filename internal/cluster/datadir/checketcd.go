package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockstep-dev/lockstep/keyspace"
)

// checkEtcd requires of a member's directory that etcd's log and database exist and
// are of this member. etcd itself checks none of it: without its log it begins a new
// one beside the old database, and with another cluster's it starts as that one's
// member.
func (l Layout) checkEtcd(m Marker) error {
	switch {
	case m.Phase.Changing() && l.EtcdBegun():
	case m.Phase != Member:
		return nil
	}
	if info, err := os.Stat(l.Database()); err != nil || info.Size() == 0 {
		return &RefusedError{l.Database(), "is missing or empty", l.replaceRemedy(m)}
	}
	cluster, member, err := l.logIDs()
	if err != nil {
		return &RefusedError{l.wal(), err.Error(), l.replaceRemedy(m)}
	}
	switch {
	case keyspace.MemberID(cluster) != m.EtcdClusterID:
		return &RefusedError{
			l.wal(), fmt.Sprintf("is of the etcd cluster %x, and %s of %s: the directory is a mix of two", cluster, markerFile, m.EtcdClusterID),
			l.replaceRemedy(m),
		}
	case keyspace.MemberID(member) != m.MemberID:
		return &RefusedError{
			l.wal(), fmt.Sprintf("is of the etcd member %x, and %s of %s: the directory is a mix of two", member, markerFile, m.MemberID),
			l.replaceRemedy(m),
		}
	}
	return nil
}

// EtcdBegun reports whether the directory contains a complete log of etcd. If not,
// etcd did not work there yet, and its files can be deleted.
func (l Layout) EtcdBegun() bool {
	_, _, err := l.logIDs()
	return err == nil
}

// EtcdBootstrapped reports whether the log of a new cluster contains its first member.
// etcd makes the log first. If it ends before it adds the member, it never elects a
// leader: nothing in the log names the members.
func (l Layout) EtcdBootstrapped() bool {
	segments, err := l.segments()
	if err != nil {
		return false
	}
	f, err := os.Open(segments[0])
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	return decodeBootstrap(f)
}

// logIDs returns the IDs of the cluster and of the member in the log. It reads only
// the beginning: a log can be hundreds of megabytes long.
func (l Layout) logIDs() (cluster, member uint64, err error) {
	segments, err := l.segments()
	if err != nil {
		return 0, 0, err
	}
	if err := noGap(segments); err != nil {
		return 0, 0, err
	}
	f, err := os.Open(segments[0])
	if err != nil {
		return 0, 0, fmt.Errorf("cannot be read: %s", reason(err))
	}
	cluster, member, err = decodeIDs(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, 0, fmt.Errorf("has a damaged log of etcd (%s): %w", filepath.Base(segments[0]), err)
	}
	return cluster, member, nil
}

// segments returns the files of the log in their order, at least one.
func (l Layout) segments() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(l.wal(), "*.wal"))
	if err == nil && len(found) == 0 {
		err = errors.New("has no log of etcd")
	}
	slices.Sort(found)
	return found, err
}

// noGap requires that the segments of a log follow each other. Their names begin
// with their number.
func noGap(segments []string) error {
	var first int
	for i, path := range segments {
		var number, index int
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x-%016x.wal", &number, &index); err != nil {
			return fmt.Errorf("has a file that is not of etcd: %s", filepath.Base(path))
		}
		if i == 0 {
			first = number
		}
		if number != first+i {
			return fmt.Errorf("has a gap before %s: a part of etcd's log was deleted", filepath.Base(path))
		}
	}
	return nil
}
