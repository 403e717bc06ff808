package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

// MakeDir makes a directory inside the data directory that only this user can
// read, unless it exists.
func MakeDir(path string) error {
	if err := os.Mkdir(path, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
