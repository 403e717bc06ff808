package pki

import (
	"errors"
	"os"
	"path/filepath"
)

// writeFile replaces a file. It has the old content or the new one, also after a crash
// of the machine.
func writeFile(dir, name string, content []byte, mode os.FileMode) error {
	temporary := filepath.Join(dir, "."+name+".tmp") // of an attempt that was interrupted: replaced
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeSynced(temporary, content, mode); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDir(dir)
}

func writeSynced(path string, content []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// The mode of a new file is what the umask leaves of it.
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
