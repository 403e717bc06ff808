package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// checkOwners refuses a directory in which another user has something of Lockstep and could change it:
// a key, the program of the member, the data of etcd. Snapshots are only written here. A sidecar without
// a member leaves other files in its directory alone. What cannot be read is refused by who reads it.
func (l Layout) checkOwners() error {
	var found *trusted.Finding
	_ = filepath.WalkDir(string(l), func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && e != nil && e.IsDir():
			return fs.SkipDir
		case err != nil:
			return nil //nolint:nilerr // it was deleted meanwhile
		case filepath.Dir(path) == string(l) && !isJudged(e.Name()):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // it was deleted meanwhile
		}
		if found = trusted.Owner(path, info); found != nil {
			return fs.SkipAll
		}
		return nil
	})
	if found == nil {
		return nil
	}
	return l.distrusted(found)
}

// isJudged reports whether the owner of what has this name in the directory counts.
func isJudged(name string) bool {
	return name != snapshotsDir && (name == markerFile || isOwn(name) || isIncidental(name))
}

// distrusted refuses the directory for what was found there or above it. What another user owns is
// mostly not one file, but all that was copied or restored with it.
func (l Layout) distrusted(found *trusted.Finding) error {
	advice := found.Advice()
	if l.has(found.Path) {
		if info, err := os.Lstat(found.Path); err == nil && trusted.Owner(found.Path, info) != nil {
			advice = fmt.Sprintf("if no other user has, type: chown -R %d %s", os.Geteuid(), l)
		}
	}
	return &RefusedError{found.Path, found.What, advice}
}

// has reports whether a path is the directory, or in it.
func (l Layout) has(path string) bool {
	to, err := filepath.EvalSymlinks(string(l))
	if err != nil {
		return false
	}
	for _, dir := range []string{string(l), to} {
		if in, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(in) {
			return true
		}
	}
	return false
}
