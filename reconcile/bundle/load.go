package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const headerFile = "bundle.yaml"

// maxDirDepth bounds how deep directories may be nested: a symbolic link to a
// parent directory would otherwise be followed without end.
const maxDirDepth = 16

// maxEntries bounds how many files and directories a bundle may have. Two links to
// a parent directory would otherwise be followed 2^maxDirDepth times.
const maxEntries = 10_000

// Load reads the bundle in dir. If its contents are at fault, the error is a
// *LoadError with all problems.
//
// Load ignores names that begin with a dot. In a mounted ConfigMap they are the
// directories with the data, to which the visible names link.
func Load(dir string) (*Bundle, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open bundle: %q is not a directory", dir)
	}
	return load(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
}

// load reads the bundle in fsys. shown returns the name of a file as messages
// have it.
func load(fsys fs.FS, shown func(string) string) (*Bundle, error) {
	l := loader{fsys: fsys, shown: shown, problems: &problems{}, seen: map[objectKey]place{}}
	l.dir(".", 0)
	l.finish()
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	return l.bundle, nil
}

// loader collects a bundle and its problems.
type loader struct {
	fsys     fs.FS
	shown    func(string) string
	problems *problems
	bundle   *Bundle // nil until bundle.yaml was read without problems
	headers  int
	objects  []object
	seen     map[objectKey]place
	size     int // in bytes, of the files so far
	entries  int // files and directories so far
}

func (l *loader) dir(dir string, depth int) {
	at := place{file: l.shown(dir)}
	if depth > maxDirDepth {
		l.problems.add(at, "more than %d directories deep; is there a link to a parent directory?", maxDirDepth)
		return
	}
	entries, err := fs.ReadDir(l.fsys, dir) // sorted by name
	if err != nil {
		l.problems.add(at, "%v", reasonOf(err))
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if l.entries++; l.entries > maxEntries {
			if l.entries == maxEntries+1 {
				l.problems.add(at, "the bundle has more than %d files and directories; is there a link to a parent directory?", maxEntries)
			}
			return
		}
		l.entry(path.Join(dir, entry.Name()), depth)
	}
}

// entry reads a directory or a file, and follows links to them.
func (l *loader) entry(name string, depth int) {
	info, err := fs.Stat(l.fsys, name)
	switch {
	case err != nil:
		l.problems.add(place{file: l.shown(name)}, "%v", reasonOf(err))
	case info.IsDir():
		l.dir(name, depth+1)
	case isManifest(name) && !info.Mode().IsRegular():
		l.problems.add(place{file: l.shown(name)}, "is not a regular file")
	case isManifest(name):
		l.file(name)
	}
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func (l *loader) file(name string) {
	at := place{file: l.shown(name)}
	data, err := l.read(name)
	if err != nil {
		l.problems.add(at, "%v", reasonOf(err))
		return
	}
	if line := invalidUTF8(data); line > 0 {
		l.problems.add(at.at(line), "is not valid UTF-8")
		return
	}
	if crowded(data) {
		l.problems.add(at, "has more than %d values, by its commas, colons and dashes; split it into several files", maxValues)
		return
	}
	parse := readYAML
	if path.Ext(name) == ".json" {
		parse = readJSON
	}
	before := l.problems.count
	documents := parse(at.file, data, l.problems)
	if name == headerFile {
		l.headers++
		if l.problems.count == before {
			l.header(at, documents)
		}
		return
	}
	for _, d := range documents {
		l.manifest(d.at, d.root)
	}
}

func (l *loader) read(name string) ([]byte, error) {
	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("is larger than %d MiB; split it into several files", maxFileSize>>20)
	}
	l.size += len(data)
	if err == nil && l.size > maxBundleSize {
		err = fmt.Errorf("makes the bundle larger than %d MiB", maxBundleSize>>20)
	}
	return data, err
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

// reasonOf returns err without the path: the problem names the file already.
func reasonOf(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

func (l *loader) finish() {
	root := place{file: l.shown(".")}
	if l.headers == 0 {
		l.problems.add(root, "has no %s, which names the bundle's release", headerFile)
		return
	}
	if l.bundle == nil {
		return
	}
	if len(l.objects) == 0 && l.problems.count == 0 {
		l.problems.add(root, "has no manifests: a bundle without objects would remove everything")
		return
	}
	l.bundle.Objects, l.bundle.sources = canonical(l.objects)
	if err := l.bundle.digest(); err != nil {
		l.problems.add(root, "%v", err)
	}
}
