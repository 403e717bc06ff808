// Package strict reads the YAML and JSON files that people write: bundles, and the services of
// a node. It owns the nodes that such a file becomes, the place of each of them, and the
// problems that are found in it. The packages that use it define the meaning of the fields. It
// starts no goroutine.
//
// Reading is strict and total: duplicate keys, tabs, merge keys, tags and text that is not
// UTF-8 are problems, each with file and line, and all of them are reported at once. Limits
// keep hostile files from using up memory or stack. No message shows a value of the file: it
// may be a secret.
package strict

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"unicode/utf8"
)

// IsFile reports whether a name is one of a file that this package reads, by its ending.
func IsFile(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// Open returns the contents of a file of fsys, of up to MaxFileSize bytes.
func Open(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(data) > MaxFileSize {
		err = fmt.Errorf("is larger than %d MiB; split it into several files", MaxFileSize>>20)
	}
	return data, err
}

// Read returns the documents of a file that are not empty, and adds its problems to p. file is
// its name in messages, which ends in .json if it is JSON.
func Read(file string, data []byte, p *Problems) []Document {
	at := Place{File: file}
	if line := invalidUTF8(data); line > 0 {
		p.Add(at.At(line), "is not valid UTF-8")
		return nil
	}
	if crowded(data) {
		p.Add(at, "has more than %d values, by its commas, colons and dashes; split it into several files", MaxValues)
		return nil
	}
	if path.Ext(file) == ".json" {
		return readJSON(file, data, p)
	}
	return readYAML(file, data, p)
}

// invalidUTF8 returns the line of the first byte that is not UTF-8; 0: none.
func invalidUTF8(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return line
		case r == '\n':
			line++
		}
		data = data[size:]
	}
	return 0
}

// Reason returns err without the path: the problem names the file already.
func Reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
