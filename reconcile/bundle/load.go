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

// maxFolders bounds how deep sub-folders may go: a symlink that leads back up
// would otherwise never end.
const maxFolders = 16

// maxEntries bounds how many files and folders there may be in all. Two links that
// lead back up would otherwise be followed two to the power of maxFolders times.
const maxEntries = 10_000

// Load reads the bundle in dir. An error that is about its contents is a
// *LoadError with everything that is wrong.
//
// Names that begin with a dot are passed over. In a mounted ConfigMap those are
// the folders that hold the data, which the visible names link to.
func Load(dir string) (*Bundle, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open bundle: %q is not a folder", dir)
	}
	return load(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
}

// load reads the bundle in fsys. shown turns a file's name into what people
// see.
func load(fsys fs.FS, shown func(string) string) (*Bundle, error) {
	l := loader{fsys: fsys, shown: shown, problems: &problems{}, seen: map[key]place{}}
	l.folder(".", 0)
	l.finish()
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	return l.bundle, nil
}

// loader gathers a bundle and what is wrong with it.
type loader struct {
	fsys     fs.FS
	shown    func(string) string
	problems *problems
	bundle   *Bundle // nil until bundle.yaml was understood
	headers  int
	objects  []object
	seen     map[key]place
	size     int // of the files that were read
	entries  int // files and folders that were met
}

func (l *loader) folder(dir string, depth int) {
	at := place{file: l.shown(dir)}
	if depth > maxFolders {
		l.problems.add(at, "more than %d folders deep; does a link lead back up?", maxFolders)
		return
	}
	entries, err := fs.ReadDir(l.fsys, dir) // sorted by name
	if err != nil {
		l.problems.add(at, "%v", reason(err))
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if l.entries++; l.entries > maxEntries {
			if l.entries == maxEntries+1 {
				l.problems.add(at, "with it there are more than %d files and folders; does a link lead back up?", maxEntries)
			}
			return
		}
		l.entry(path.Join(dir, entry.Name()), depth)
	}
}

// entry follows links: the entry itself may say that it is neither folder nor
// file.
func (l *loader) entry(name string, depth int) {
	info, err := fs.Stat(l.fsys, name)
	switch {
	case err != nil:
		l.problems.add(place{file: l.shown(name)}, "%v", reason(err))
	case info.IsDir():
		l.folder(name, depth+1)
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
		l.problems.add(at, "%v", reason(err))
		return
	}
	if line := invalidUTF8(data); line > 0 {
		l.problems.add(at.at(line), "is not valid UTF-8")
		return
	}
	if crowded(data) {
		l.problems.add(at, "has more than %d values, as its commas, colons and dashes tell; split it into several files", maxValues)
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
	defer f.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("is larger than %d MiB; split it into several files", maxFileSize>>20)
	}
	l.size += len(data)
	if err == nil && l.size > maxBundleSize {
		err = fmt.Errorf("with it the bundle is larger than %d MiB", maxBundleSize>>20)
	}
	return data, err
}

// invalidUTF8 returns the line of the first byte that is no UTF-8, or 0.
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

// reason drops the path that the operating system puts before its reason: the
// problem names the file already.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

func (l *loader) finish() {
	root := place{file: l.shown(".")}
	if l.headers == 0 {
		l.problems.add(root, "has no %s, which says the bundle's release", headerFile)
		return
	}
	if l.bundle == nil {
		return
	}
	if len(l.objects) == 0 && l.problems.count == 0 {
		l.problems.add(root, "has no manifests: a bundle without objects would remove everything")
		return
	}
	l.bundle.Objects = canonical(l.objects)
	if err := l.bundle.digest(); err != nil {
		l.problems.add(root, "%v", err)
	}
}
