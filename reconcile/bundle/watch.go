package bundle

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Watch calls changed, from its own goroutine, with what Load returns each time
// the folder has become another one: names, sizes, times or what links lead to.
// It looks every interval, and loads when two looks in a row have seen the same,
// so that a copy which is under way is not read half. The first call tells what
// is there to begin with. It returns when ctx ends.
//
// It looks instead of being told: that works with every kind of mount, and with
// links that are swapped above the folder, as those of a mounted ConfigMap.
func Watch(ctx context.Context, dir string, interval time.Duration, changed func(*Bundle, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var loaded, last uint64 // what was there before is not known
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now := look(dir)
		settled := now == last
		last = now
		if settled && now != loaded {
			loaded = now
			changed(Load(dir))
		}
	}
}

// look is a fingerprint of the folder. What cannot be read is part of it.
func look(dir string) uint64 {
	sum, met := fnv.New64a(), 0
	var walk func(path string, depth int)
	walk = func(path string, depth int) {
		entries, err := os.ReadDir(path)
		fmt.Fprintln(sum, path, err)
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			if met++; met > maxEntries {
				return // Load refuses it
			}
			name := filepath.Join(path, entry.Name())
			info, err := os.Stat(name)
			fmt.Fprintln(sum, name, err)
			if err != nil {
				continue
			}
			if info.IsDir() && depth < maxFolders {
				walk(name, depth+1)
				continue
			}
			fmt.Fprintln(sum, info.Mode(), info.Size(), info.ModTime().UnixNano(), target(name, entry))
		}
	}
	walk(dir, 0)
	fmt.Fprintln(sum, resolved(dir))
	return sum.Sum64()
}

// target is what a link leads to in the end: a file of the same size and time
// may have taken the place of another.
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
