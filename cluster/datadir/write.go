package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tempSuffix marks a file that was not complete when its writer ended.
const tempSuffix = ".tmp"

// WriteFile replaces a file of the data directory as a whole: after a crash it has
// the old content or the new one. When it returns, the new one is on the disk.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	temp := path + tempSuffix
	if err := writeSynced(temp, content, mode); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return syncDir(filepath.Dir(path))
}

// writeSynced does not use an existing file: its mode may be another one.
func writeSynced(path string, content []byte, mode fs.FileMode) error {
	if err := removeIfThere(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MakeDir makes a directory inside the data directory that only this user can
// read, unless it exists.
func MakeDir(path string) error {
	if err := os.Mkdir(path, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes names that were added or replaced in a directory survive a crash.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %q: %w", path, err)
	}
	return nil
}
