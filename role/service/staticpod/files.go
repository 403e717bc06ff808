package staticpod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tempSuffix ends the name of a file that is being written; a dot begins it.
const tempSuffix = ".tmp"

// place writes a file so that a reader sees all of it or nothing, after a power cut too.
func place(path string, content []byte) error {
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+filepath.Base(path)+tempSuffix)
	if err := writeSynced(temp, content); err != nil {
		return errors.Join(err, remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, remove(temp))
	}
	return syncDir(dir)
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes a rename or a removal last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Clean removes from a directory what Lockstep has placed there for services other than keep,
// and what it left half written. A file without our mark stays. It returns the names of what
// it removed.
func Clean(directory string, keep []string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("clean %q: %w", directory, err)
	}
	var removed []string
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || !stale(directory, name, keep) {
			continue
		}
		if err := remove(filepath.Join(directory, name)); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	if len(removed) > 0 {
		errs = append(errs, syncDir(directory))
	}
	return removed, errors.Join(errs...)
}

// stale reports whether a file is ours and no service needs it.
func stale(directory, name string, keep []string) bool {
	if strings.HasPrefix(name, "."+prefix) && strings.HasSuffix(name, tempSuffix) {
		return true
	}
	service, is := strings.CutPrefix(strings.TrimSuffix(name, ".yaml"), prefix)
	return is && strings.HasSuffix(name, ".yaml") && !slices.Contains(keep, service) && marked(filepath.Join(directory, name))
}

// marked reports whether a file begins with our mark.
func marked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	head := make([]byte, len(mark))
	_, err = io.ReadFull(f, head)
	return err == nil && bytes.Equal(head, []byte(mark))
}
