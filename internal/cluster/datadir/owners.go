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
	dir := l.resolved()
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && e != nil && e.IsDir():
			return fs.SkipDir
		case err != nil:
			return nil //nolint:nilerr // it was deleted meanwhile
		case filepath.Dir(path) == dir && !isJudged(e.Name()):
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
	if in, err := filepath.Rel(l.resolved(), found.Path); err == nil && filepath.IsLocal(in) {
		if info, err := os.Lstat(found.Path); err == nil && trusted.Owner(found.Path, info) != nil {
			advice = fmt.Sprintf("if no other user has, type: chown -R %d %s", os.Geteuid(), l.resolved())
		}
	}
	return &RefusedError{found.Path, found.What, advice}
}

// resolved returns the directory itself if the layout's path is a link: neither a walk nor chown -R follows that.
func (l Layout) resolved() string {
	if to, err := filepath.EvalSymlinks(string(l)); err == nil {
		return to
	}
	return string(l)
}
