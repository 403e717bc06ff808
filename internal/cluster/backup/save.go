// Package backup saves the etcd of a cluster into a file, and makes a cluster of one
// member of such a file when the majority of the members is lost for good
// (docs/clusters.md#restore). It starts no goroutine of its own; Restore runs an etcd
// member while it works.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/durable"
)

// Saved describes a snapshot file.
type Saved struct {
	Revision int64 // of the store
	Keys     int
	Bytes    int64
	// Stale: there was no leader, so the newest writes may be missing.
	Stale bool
}

// partSuffix marks a file that is not complete.
const partSuffix = ".part"

// Save writes the whole store into a file, which must not exist, and verifies it. The
// file contains all secrets of the store: only this user can read it.
func Save(ctx context.Context, client *etcd.Client, file string) (Saved, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return Saved{}, fmt.Errorf("save a snapshot: %q exists; choose another file", file)
	}
	part, stale, err := download(ctx, client, file)
	if part == "" {
		return Saved{}, fmt.Errorf("save a snapshot: %w", err)
	}
	if err != nil {
		return Saved{}, errors.Join(fmt.Errorf("save a snapshot: %w", err), durable.Remove(part))
	}
	saved, err := Verify(part)
	saved.Stale = stale
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return Saved{}, errors.Join(fmt.Errorf("save a snapshot: %w", err), durable.Remove(part))
	}
	return saved, durable.SyncDir(filepath.Dir(file))
}

// download writes the store into a new file beside another one, and returns its name; empty: there is
// none. It never writes into a file, or through a link, that another user may have made there before.
func download(ctx context.Context, client *etcd.Client, beside string) (part string, stale bool, err error) {
	in, stale, err := client.Snapshot(ctx)
	if err != nil {
		return "", false, err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(beside), filepath.Base(beside)+".*"+partSuffix)
	if err != nil {
		return "", false, err
	}
	_, err = io.Copy(out, in)
	return out.Name(), stale, errors.Join(err, out.Sync(), out.Close())
}

// Verify reads a file that Save, or etcd's own tools, wrote. It reports one that is cut
// off or damaged.
func Verify(file string) (Saved, error) {
	if err := verifyHash(file); err != nil {
		return Saved{}, err
	}
	saved, err := readStore(file)
	if err != nil {
		return Saved{}, fmt.Errorf("%q is not a valid snapshot: %w", file, err)
	}
	return saved, nil
}

// verifyHash compares the content with the SHA-256 at its end, which etcd adds. The
// library does that only when it restores.
func verifyHash(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	size := info.Size() - sha256.Size
	if size <= 0 {
		return fmt.Errorf("%q is not a valid snapshot: it has %d bytes", file, info.Size())
	}
	hash, want := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(hash, in, size); err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if _, err := io.ReadFull(in, want); err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if !bytes.Equal(hash.Sum(nil), want) {
		return fmt.Errorf("%q is not a valid snapshot: its content does not match the hash at its end; it is damaged, cut off, or not a snapshot", file)
	}
	return nil
}
