package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// etcd keeps each version of a key in this bucket, under its revision: eight bytes, an underscore, and the
// place of the change in its transaction in eight more. A deletion is one byte longer
// (https://etcd.io/docs/v3.6/learning/data_model/).
var keyBucket = []byte("key")

const (
	revisionBytes = 8
	changeBytes   = revisionBytes + 1 + 8
)

// readStore reads the database of etcd in a file, all of it, so that a damaged one is seen.
func readStore(file string) (saved Saved, err error) {
	db, err := bolt.Open(file, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		return Saved{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		var problems []error
		for problem := range tx.Check() {
			problems = append(problems, problem)
		}
		if len(problems) > 0 {
			return fmt.Errorf("its database has %d damaged pages: %w", len(problems), problems[0])
		}
		bucket := tx.Bucket(keyBucket)
		if bucket == nil {
			return errors.New("its database is not that of an etcd")
		}
		saved.Bytes = tx.Size()
		saved.Revision, saved.Keys, err = readKeys(bucket)
		return err
	})
	return saved, err
}

// newestRevision returns the last revision in the database of etcd in a file. The file may be damaged, and even cut off: that
// is an error, and never ends the program.
func newestRevision(file string) (revision int64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of a file that is cut off
	defer func() {
		if damage := recover(); damage != nil {
			err = fmt.Errorf("its database is damaged: %v", damage)
		}
	}()
	db, err := bolt.Open(file, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(keyBucket)
		if bucket == nil {
			return errors.New("its database is not that of an etcd")
		}
		if change, _ := bucket.Cursor().Last(); len(change) >= changeBytes {
			revision = int64(binary.BigEndian.Uint64(change)) //nolint:gosec // etcd counts them up from one
		}
		return nil
	})
	return revision, err
}

func readKeys(bucket *bolt.Bucket) (revision int64, keys int, err error) {
	live := map[string]bool{}
	err = bucket.ForEach(func(change, value []byte) error {
		if len(change) < changeBytes || change[revisionBytes] != '_' {
			return fmt.Errorf("the key of a revision is %q", change)
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(value, &kv); err != nil {
			return fmt.Errorf("the revision %x: %w", change, err)
		}
		revision = int64(binary.BigEndian.Uint64(change)) //nolint:gosec // etcd counts them up from one
		if len(change) > changeBytes {
			delete(live, string(kv.Key))
		} else {
			live[string(kv.Key)] = true
		}
		return nil
	})
	return revision, len(live), err
}
