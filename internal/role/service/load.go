package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// maxServices bounds the files of a directory.
const maxServices = 100

// Load reads the services in dir, in the order of their file names, for this machine: the files
// that they name must exist here. If the contents are invalid, the error is a *strict.LoadError
// with all problems.
//
// Load ignores directories, names that begin with a dot, and files that do not end in .yaml, .yml
// or .json.
func Load(dir string) ([]Service, error) { return (&loader{dir: dir, here: true}).load() }

// Check reads the services in dir for another machine: of the files that they name, only the
// manifests of static pods must exist. It returns the same errors as Load.
func Check(dir string) ([]Service, error) { return (&loader{dir: dir}).load() }

func (l *loader) load() ([]Service, error) {
	entries, err := os.ReadDir(l.dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("open services: %w", err)
	}
	l.seen = map[[2]string]strict.Place{}
	if problem := l.trusted(l.dir); problem != "" {
		l.problems.Add(strict.Place{File: l.dir}, "%s", problem)
		return nil, l.problems.Err()
	}
	files := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !strict.IsFile(entry.Name()) || entry.IsDir() {
			continue
		}
		if files++; files > maxServices {
			l.problems.Add(strict.Place{File: l.dir}, "has more than %d files", maxServices)
			break
		}
		l.file(entry.Name())
	}
	if files == 0 {
		l.problems.Add(strict.Place{File: l.dir}, "has no services: no file ends in .yaml, .yml or .json")
	}
	if err := l.problems.Err(); err != nil {
		return nil, err
	}
	return l.services, nil
}

// loader collects services and their problems.
type loader struct {
	dir      string
	here     bool // the files that services name must exist on this machine
	problems strict.Problems
	services []Service
	// seen has the places of names, units and output files, each below its field: two services cannot share one.
	seen map[[2]string]strict.Place
}

func (l *loader) file(name string) {
	at := strict.Place{File: filepath.Join(l.dir, name)}
	if problem := l.trusted(at.File); problem != "" {
		l.problems.Add(at, "%s", problem)
		return
	}
	data, changed, err := l.open(name)
	if err != nil {
		l.problems.Add(at, "%v", strict.Reason(err))
		return
	}
	before := l.problems.Count()
	documents := strict.Read(at.File, data, &l.problems)
	switch {
	case l.problems.Count() > before:
	case len(documents) != 1:
		l.problems.Add(at, "has %d documents, want one of kind Service: one file for each service", len(documents))
	default:
		s := l.service(documents[0])
		s.Source = Source{File: at.File, Changed: changed}
		l.services = append(l.services, s)
	}
}

// trusted explains how a user other than root and this one could choose the programs that run here;
// empty: no such user can. Files for another machine are trusted.
func (l *loader) trusted(path string) string {
	if !l.here {
		return ""
	}
	return distrust(trusted.Problem(path))
}

func distrust(problem string) string {
	if problem == "" {
		return ""
	}
	return "cannot be trusted: " + problem
}

// open returns the content of a file, and when it was written. It follows links, as a mounted
// ConfigMap contains them.
func (l *loader) open(name string) (data []byte, changed time.Time, err error) {
	info, err := os.Stat(filepath.Join(l.dir, name))
	switch {
	case err != nil:
		return nil, changed, err
	case !info.Mode().IsRegular():
		return nil, changed, errors.New("is not a regular file")
	}
	data, err = strict.Open(os.DirFS(l.dir), name)
	return data, info.ModTime(), err
}

// unique adds a problem if another service uses the same name in a field.
func (l *loader) unique(field, name string, at strict.Place) {
	if first, dup := l.seen[[2]string{field, name}]; dup {
		l.problems.Add(at, "%s %q is used twice, first at %s", field, name, first)
		return
	}
	l.seen[[2]string{field, name}] = at
}

// Watch calls changed with the result of Load, once at the beginning and at each change, until ctx
// ends. It runs changed on the caller's goroutine. It loads every interval, and accepts a result
// when two in a row are equal, so that it does not use half of a copy in progress.
func Watch(ctx context.Context, dir string, interval time.Duration, changed func([]Service, error)) error {
	var taken, last *result
	reload := func() {
		list, err := Load(dir)
		now := &result{services: list}
		if err != nil {
			now.problem = err.Error()
		}
		settled := last != nil && reflect.DeepEqual(now, last)
		last = now
		if settled && (taken == nil || !reflect.DeepEqual(now, taken)) {
			taken = now
			changed(list, err)
		}
	}
	reload()
	return backoff.Every(ctx, interval, reload)
}

// result is a result of Load.
type result struct {
	services []Service
	problem  string
}

// executable returns the problem of a program's file; empty: none.
func executable(path string) string {
	mode, problem := modeOf(path)
	switch {
	case problem != "":
		return problem
	case !mode.IsRegular():
		return "is not a file"
	case mode.Perm()&0o111 == 0:
		return "is not executable; type: chmod +x " + path
	}
	return distrust(trusted.Problem(path))
}

// directory returns the problem of a directory; empty: none.
func directory(path string) string {
	return cmp.Or(anyDirectory(path), distrust(trusted.Problem(path)))
}

// newFile returns the problem of a file that the sidecar makes; empty: none.
func newFile(path string) string {
	return cmp.Or(directory(filepath.Dir(path)), distrust(trusted.NewFileProblem(path)))
}

// anyDirectory is like directory, but does not check who can change the directory.
func anyDirectory(path string) string {
	mode, problem := modeOf(path)
	if problem == "" && !mode.IsDir() {
		return "is not a directory"
	}
	return problem
}

// modeOf returns the mode of the file at a path, after links, or why it cannot be read.
func modeOf(path string) (mode fs.FileMode, problem string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, "does not exist"
	case err != nil:
		return 0, strict.Reason(err).Error()
	}
	return info.Mode(), ""
}
