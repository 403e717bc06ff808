package datadir

import (
	"errors"
	"io/fs"
	"os"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// decodeIDs returns the IDs of the cluster and of the member that the first segment
// of a log begins with.
func decodeIDs(segment *os.File) (cluster, member uint64, err error) {
	const atMost = 8 // records before them; etcd writes one
	decoder := wal.NewDecoder(segmentFile{segment})
	for range atMost {
		rec := &walpb.Record{}
		if err := decoder.Decode(rec); err != nil {
			return 0, 0, err
		}
		switch rec.GetType() {
		case wal.CrcType:
			decoder.UpdateCRC(rec.GetCrc())
		case wal.MetadataType:
			out := &etcdserverpb.Metadata{}
			err := proto.Unmarshal(rec.GetData(), out)
			return out.GetClusterID(), out.GetNodeID(), err
		}
	}
	return 0, 0, errors.New("it does not begin with the IDs")
}

// decodeBootstrap reports whether the first segment of a log contains an entry and then
// a state: etcd writes these two first in a new cluster.
func decodeBootstrap(segment *os.File) bool {
	const atMost = 16 // records: etcd writes these after four others
	decoder, entry := wal.NewDecoder(segmentFile{segment}), false
	for range atMost {
		rec := &walpb.Record{}
		if decoder.Decode(rec) != nil {
			return false
		}
		switch rec.GetType() {
		case wal.CrcType:
			decoder.UpdateCRC(rec.GetCrc())
		case wal.EntryType:
			entry = true
		case wal.StateType:
			if entry {
				return true
			}
		}
	}
	return entry
}

// segmentFile is a file as etcd's decoder reads it.
type segmentFile struct{ *os.File }

// FileInfo returns the file's size, by which the decoder limits the size of a record.
func (f segmentFile) FileInfo() (fs.FileInfo, error) { return f.Stat() }
