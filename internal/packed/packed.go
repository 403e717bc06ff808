// Package packed runs a program that another one has inside it, compressed. So one file can be
// installed, and the process that runs all the time has only its own code in memory
// (docs/adr/0021-a-program-of-its-own-for-the-member.md). It starts no goroutines.
package packed

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

// Program is one program.
type Program struct {
	Name string // of its file
	Gzip []byte // the file, compressed by gzip
	Sum  string // the SHA-256 of the file, in hexadecimal
}

// Unpack returns the path of the program in a directory that it makes if it has to. A file that
// is there already is used if it has the right sum. What others of this name are there, from
// other releases, is deleted. A program that still runs goes on without its file.
func (p Program) Unpack(dir string) (string, error) {
	if len(p.Sum) != sha256.Size*2 {
		return "", fmt.Errorf("the program %s inside this one has the sum %q: this build is broken", p.Name, p.Sum)
	}
	path := filepath.Join(dir, p.Name+"-"+p.Sum[:12])
	if p.isAt(path) {
		return path, nil
	}
	content, err := p.content()
	if err != nil {
		return "", fmt.Errorf("the program %s inside this one: %w; this build is broken", p.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := p.removeOthers(dir, path); err != nil {
		return "", err
	}
	if err := durable.WriteFile(path, content, 0o700); err != nil {
		return "", fmt.Errorf("unpack the program %s: %w", p.Name, err)
	}
	return path, nil
}

// Exec unpacks the program into a directory, and goes on as that program: same process ID, streams,
// and environment. It returns only if that fails.
func (p Program) Exec(dir string, environ []string) error {
	path, err := p.Unpack(dir)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, []string{path}, environ)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("start %s: %w; programs must be allowed to run there: mount the file system without noexec", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// isAt reports whether a file is the program. Whatever is wrong with it, it is written again.
func (p Program) isAt(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o700 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == p.Sum
}

func (p Program) content() ([]byte, error) {
	in, err := gzip.NewReader(bytes.NewReader(p.Gzip))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(out); hex.EncodeToString(sum[:]) != p.Sum {
		return nil, errors.New("it does not have its sum")
	}
	return out, nil
}

func (p Program) removeOthers(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if old := filepath.Join(dir, e.Name()); strings.HasPrefix(e.Name(), p.Name+"-") && old != path {
			err = errors.Join(err, durable.Remove(old))
		}
	}
	return err
}
