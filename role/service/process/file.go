package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// File is a file for the output of a service, which is rotated by size. The zero value is
// none.
type File struct {
	Path    string
	MaxSize int // in MiB, of a file
	Backups int // how many rotated files are kept, at least one: Path.1 is the newest
}

// open returns the file. Nothing is opened before the first write.
func (f File) open() *rotated { return &rotated{File: f, limit: int64(f.MaxSize) << 20} }

// rotated is a File that is open. Only one goroutine may use it.
type rotated struct {
	File

	limit int64    // bytes
	file  *os.File // nil: not open
	size  int64    // of file
}

// Write appends part to the file. If it would exceed the limit, it begins a new one first. After an error,
// the next call opens the file again: the disk may have space then.
func (r *rotated) Write(part []byte) (int, error) {
	if err := r.ensure(); err != nil {
		return 0, err
	}
	if r.size > 0 && r.size+int64(len(part)) > r.limit {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(part)
	r.size += int64(n)
	if err != nil {
		return n, errors.Join(err, r.Close())
	}
	return n, nil
}

// ensure opens the file, if it is not open, and creates its directory.
func (r *rotated) ensure() error {
	if r.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.Path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(r.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.file, r.size = file, info.Size()
	return nil
}

// rotate gives each file the next number, and begins a new one. The last number is
// replaced. If the process ends in between, a number is missing until the next rotation.
func (r *rotated) rotate() error {
	if err := r.Close(); err != nil {
		return err
	}
	for n := r.Backups; n > 0; n-- {
		from := r.Path
		if n > 1 {
			from = r.backup(n - 1)
		}
		if err := os.Rename(from, r.backup(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.ensure()
}

func (f File) backup(n int) string { return f.Path + "." + strconv.Itoa(n) }

// Close closes the file. A later Write opens it again.
func (r *rotated) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
