package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

const headerFile = "bundle.yaml"

// maxDirDepth bounds how deep directories may be nested: a symbolic link to a
// parent directory would otherwise be followed without end.
const maxDirDepth = 16

// maxEntries bounds the number of files and directories of a bundle. Two links to a parent
// directory would otherwise be followed 2^maxDirDepth times.
const maxEntries = 10_000

// maxBundleSize bounds all files together.
const maxBundleSize = 64 << 20

// Load reads the bundle in dir. If its contents are at fault, the error is a
// *LoadError with all problems, those of Validate too.
//
// Load ignores names that begin with a dot. In a mounted ConfigMap they are the
// directories with the data, to which the visible names link.
func Load(dir string) (*Bundle, error) {
	l, err := newLoader(dir)
	if err != nil {
		return nil, err
	}
	b, err := l.load()
	if err != nil { // people correct all in one go
		return nil, l.lint()
	}
	return b, nil
}

func newLoader(dir string) (*loader, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open bundle: %q is not a directory", dir)
	}
	l := loaderOf(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
	l.onDisk = true
	return l, nil
}

// loaderOf returns a loader of fsys. shown returns the name of a file for messages.
func loaderOf(fsys fs.FS, shown func(string) string) *loader {
	return &loader{fsys: fsys, shown: shown, problems: &strict.Problems{}, seen: map[Key]strict.Place{}, texts: strict.Texts{}}
}

// load reads the bundle.
func (l *loader) load() (*Bundle, error) {
	if _, err := fs.Stat(l.fsys, headerFile); errors.Is(err, fs.ErrNotExist) {
		// It is most likely another directory, whose files are no manifests.
		l.noHeader()
	} else {
		l.dir(".", 0)
		l.finish()
	}
	if err := l.problems.Err(); err != nil {
		return nil, err
	}
	return l.bundle, nil
}

// loader collects a bundle and its problems.
type loader struct {
	fsys     fs.FS
	shown    func(string) string
	onDisk   bool     // shown returns paths
	paths    []string // of the directories and files so far
	problems *strict.Problems
	bundle   *Bundle // nil until bundle.yaml was read without problems
	headers  int
	objects  []object
	seen     map[Key]strict.Place
	texts    strict.Texts // of the objects
	size     int          // in bytes, of the files so far
	entries  int          // files and directories so far
}

func (l *loader) dir(dir string, depth int) {
	at := strict.Place{File: l.shown(dir)}
	l.paths = append(l.paths, at.File)
	if depth > maxDirDepth {
		l.problems.Add(at, "more than %d directories deep; is there a link to a parent directory?", maxDirDepth)
		return
	}
	entries, err := fs.ReadDir(l.fsys, dir) // sorted by name
	if err != nil {
		l.problems.Add(at, "%v", strict.Reason(err))
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if l.entries++; l.entries > maxEntries {
			if l.entries == maxEntries+1 {
				l.problems.Add(at, "the bundle has more than %d files and directories; is there a link to a parent directory?", maxEntries)
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
		l.problems.Add(strict.Place{File: l.shown(name)}, "%v", strict.Reason(err))
	case info.IsDir():
		l.dir(name, depth+1)
	case strict.IsFile(name) && !info.Mode().IsRegular():
		l.problems.Add(strict.Place{File: l.shown(name)}, "is not a regular file")
	case strict.IsFile(name):
		l.file(name)
	}
}

func (l *loader) file(name string) {
	at := strict.Place{File: l.shown(name)}
	l.paths = append(l.paths, at.File)
	data, err := strict.Open(l.fsys, name)
	l.size += len(data)
	if err == nil && l.size > maxBundleSize {
		err = fmt.Errorf("makes the bundle larger than %d MiB", maxBundleSize>>20)
	}
	if err != nil {
		l.problems.Add(at, "%v", strict.Reason(err))
		return
	}
	before := l.problems.Count()
	documents := strict.Read(at.File, data, l.problems)
	if name == headerFile {
		l.headers++
		if l.problems.Count() == before {
			l.header(at, documents)
		}
		return
	}
	for _, d := range documents {
		l.manifest(d.At, d.Root)
	}
}

// noHeader is the problem of a directory that is no bundle. Those below it that are
// bundles are named.
func (l *loader) noHeader() {
	var below []string
	entries, _ := fs.ReadDir(l.fsys, ".") // its error is the same problem
	for _, entry := range entries {
		if _, err := fs.Stat(l.fsys, path.Join(entry.Name(), headerFile)); err == nil {
			below = append(below, l.shown(entry.Name()))
		}
	}
	hint := ""
	if len(below) > 0 {
		hint = "; did you mean " + strings.Join(below[:min(3, len(below))], " or ") + "?"
	}
	l.problems.Add(strict.Place{File: l.shown(".")}, "has no %s, which names the bundle's release%s", headerFile, hint)
}

func (l *loader) finish() {
	root := strict.Place{File: l.shown(".")}
	if l.headers == 0 {
		l.noHeader()
		return
	}
	if l.bundle == nil {
		return
	}
	if len(l.objects) == 0 && l.problems.Count() == 0 {
		l.problems.Add(root, "has no manifests: a bundle without objects would remove everything")
		return
	}
	l.bundle.Objects, l.bundle.sources = canonical(l.objects)
	if l.onDisk {
		l.bundle.paths = l.paths
	}
	if err := l.bundle.digest(); err != nil {
		l.problems.Add(root, "%v", err)
	}
}
