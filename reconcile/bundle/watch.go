package bundle

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// watch calls changed with the results of Load: once at the beginning, and each time the
// directory changed (names, sizes, times, modes, owners, or targets of links). It takes a fingerprint every
// interval, and loads when two in a row are equal, so that a copy in progress is not read half.
// It calls changed from the goroutine that called watch, and returns when ctx ends.
//
// It polls because that works with every kind of mount, and with links that are swapped above
// the directory, as in a mounted ConfigMap.
func watch(ctx context.Context, dir string, interval time.Duration, changed func(*Bundle, error)) error {
	var loaded, last uint64 // fingerprints; 0: none yet
	return backoff.Every(ctx, interval, func() {
		now := fingerprint(dir)
		settled := now == last
		last = now
		if settled && now != loaded {
			loaded = now
			changed(Load(dir))
		}
	})
}

// fingerprint identifies the state of a directory. Errors are part of it.
func fingerprint(dir string) uint64 {
	sum, entriesSoFar := fnv.New64a(), 0
	var walk func(path string, depth int)
	walk = func(path string, depth int) {
		entries, err := os.ReadDir(path)
		fmt.Fprintln(sum, path, err)
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			if entriesSoFar++; entriesSoFar > maxEntries {
				return // Load rejects it
			}
			name := filepath.Join(path, entry.Name())
			info, err := os.Stat(name)
			fmt.Fprintln(sum, name, err)
			if err != nil {
				continue
			}
			fmt.Fprintln(sum, info.Mode(), owner(info))
			if info.IsDir() && depth < maxDirDepth {
				walk(name, depth+1)
				continue
			}
			fmt.Fprintln(sum, info.Size(), info.ModTime().UnixNano(), target(name, entry))
		}
	}
	walk(dir, 0)
	fmt.Fprintln(sum, resolved(dir))
	return sum.Sum64()
}

// owner returns the IDs of the user and the group.
func owner(info fs.FileInfo) (ids [2]uint32) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		ids = [2]uint32{stat.Uid, stat.Gid}
	}
	return ids
}

// target returns the final target of a link; empty: it is none. Another target may
// have the same size and time.
func target(name string, entry fs.DirEntry) string {
	if entry.Type()&fs.ModeSymlink == 0 {
		return ""
	}
	return resolved(name)
}

func resolved(name string) string {
	to, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err.Error()
	}
	return to
}
