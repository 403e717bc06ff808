// Package durable changes files so that a crash of the machine leaves the old content
// or the new one. It starts no goroutines.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix is the end of the name of a file that was not complete when its writer
// ended. The next WriteFile replaces it.
const TempSuffix = ".tmp"

// WriteFile replaces a file as a whole: after a crash it has the old content or the
// new one. When it returns, the new one is on the disk.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	return Replace(path, path+TempSuffix, content, mode)
}

// Replace is WriteFile with a name, in the same directory, for the file that is not
// complete yet: some directories are read by programs that use every file in them.
func Replace(path, temp string, content []byte, mode fs.FileMode) error {
	if err := writeSynced(temp, content, mode); err != nil {
		return errors.Join(err, Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, Remove(temp))
	}
	return SyncDir(filepath.Dir(path))
}

// writeSynced does not use an existing file: its mode may be another one.
func writeSynced(path string, content []byte, mode fs.FileMode) error {
	if err := Remove(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	// The mode of a new file is what the umask leaves of it.
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// Remove deletes a file. That it does not exist is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes names that were added or replaced in a directory survive a crash.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %q: %w", path, err)
	}
	return nil
}
