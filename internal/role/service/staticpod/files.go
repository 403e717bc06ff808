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

	"github.com/lockstep-dev/lockstep/internal/durable"
)

const fileMode = 0o600

// place writes a file so that a reader sees all of it or nothing, after a power cut too.
func place(path string, content []byte) error {
	return durable.Replace(path, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+durable.TempSuffix), content, fileMode)
}

// Clean removes from a directory the manifests that Lockstep placed there for services other than
// keep, and its half-written files. A file without our mark stays. It returns the names of the
// removed files.
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
		if err := durable.Remove(filepath.Join(directory, name)); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	if len(removed) > 0 {
		errs = append(errs, durable.SyncDir(directory))
	}
	return removed, errors.Join(errs...)
}

// stale reports whether a file is ours and no service needs it.
func stale(directory, name string, keep []string) bool {
	if strings.HasPrefix(name, "."+prefix) && strings.HasSuffix(name, durable.TempSuffix) {
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
