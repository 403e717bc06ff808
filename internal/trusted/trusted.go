// Package trusted says whether only this user and root can change the file at a path. A program
// that runs what a file says is worth as much as the weakest directory above that file.
package trusted

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links of one path, as Linux does.
const maxLinks = 40

// Problem says who else than root and the user of this process can change the file at a path,
// with the command that prevents it; empty: no other user can. See Find.
func Problem(path string) string {
	found := Find(path)
	if found == nil {
		return ""
	}
	return found.Problem()
}

// NewFileProblem is Problem for a file that this process makes, opens and makes again by its name:
// in a directory with the sticky bit, such as /tmp, others can make a link of that name first.
func NewFileProblem(path string) string {
	if problem := Problem(path); problem != "" {
		return problem
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil || info.Mode()&fs.ModeSticky == 0 || info.Mode().Perm()&0o022 == 0 || readOnly(dir) {
		return ""
	}
	return "other users can make a file or a link of that name in " + dir + ": choose a directory that is not open to them"
}

// Finding is why others can change the file at a path.
type Finding struct {
	Path   string // of the directory, file or link at fault
	What   string // who can change it
	Remedy string // the command to type if no other user changed it; after a #, what else to do
}

// Problem is the finding in one line, with the advice.
func (f *Finding) Problem() string { return f.Path + " " + f.What + "; " + f.Advice() }

// Advice says what to do.
func (f *Finding) Advice() string {
	if action, found := strings.CutPrefix(f.Remedy, "# "); found {
		return action
	}
	return "if no other user has, type: " + f.Remedy
}

// systems are directories that a distribution lets a group or every user change, for its own
// programs: rsyslog, for example, needs /var/log.
var systems = []string{"/dev/shm", "/run", "/run/lock", "/tmp", "/var/local", "/var/log", "/var/mail", "/var/tmp"}

// restrict returns the remedy for a path with that mode: chmod, or another path.
func restrict(mode, path string) string {
	if slices.Contains(systems, path) {
		return "# choose a path that is not below " + path + ", such as a directory of its own in /var/lib: programs of the system may need that mode"
	}
	return "chmod " + mode + " " + path
}

// Find returns the first place on a path where others than root and the user of this process can
// change it; nil: there is none. It looks at the owner and the mode of everything on the way:
// directories, symbolic links and their targets, and at access control lists. In a directory with the sticky bit, such as /tmp,
// others can add names, and change none of this user's. A group may write if it is root's, or the
// group of this process, which is often the user's own. Devices, pipes and sockets are not judged,
// and on a file system that is mounted read-only, such as a ConfigMap in a pod, the mode does not
// count. In a container with its own user namespace, the ID that the machine's files show there is
// trusted.
//
// A file that cannot be read, or does not exist, is no problem here: the program that opens it finds
// that out.
func Find(path string) *Finding { return judge{user: os.Geteuid(), group: os.Getegid()}.find(path) }

// FindAll is Find for many paths. It returns each finding once.
func FindAll(paths []string) []Finding {
	var out []Finding
	for _, path := range paths {
		if found := Find(path); found != nil && !slices.Contains(out, *found) {
			out = append(out, *found)
		}
	}
	return out
}

// Owner is like Find, for the owner of one file alone.
func Owner(path string, info fs.FileInfo) *Finding {
	return judge{user: os.Geteuid(), group: os.Getegid()}.owner(path, info)
}

// judge is a user that uses a path.
type judge struct{ user, group int }

func (j judge) find(path string) *Finding {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	rest, done := split(path), string(filepath.Separator)
	for links := 0; ; {
		info, err := os.Lstat(done)
		if err != nil {
			return nil
		}
		if found := j.step(done, info); found != nil {
			return found
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return nil
			}
			to, err := os.Readlink(done)
			if err != nil {
				return nil
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(done), to)
			}
			// The directories above the link were judged; the ones above its target were not.
			rest, done = slices.Concat(split(to), rest), string(filepath.Separator)
			continue
		}
		if len(rest) == 0 {
			return nil
		}
		done, rest = filepath.Join(done, rest[0]), rest[1:]
	}
}

// split returns the names in an absolute path.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.Clean(path), string(filepath.Separator)), func(name string) bool { return name == "" })
}

// step judges one directory, file or link.
func (j judge) step(path string, info fs.FileInfo) *Finding {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	group := int(stat.Gid)
	mode := info.Mode()
	switch {
	case mode&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeIrregular) != 0: // such as /dev/null
		return nil
	case j.owner(path, info) != nil:
		return j.owner(path, info)
	case mode&fs.ModeSymlink != 0, mode.IsDir() && mode&fs.ModeSticky != 0: // the mode of a link means nothing
		return nil
	case mode.Perm()&0o022 != 0 && readOnly(path):
		return nil
	case mode.Perm()&0o002 != 0:
		return &Finding{path, fmt.Sprintf("can be changed by every user (mode %#o)", mode.Perm()), restrict("o-w", path)}
	case mode.Perm()&0o020 != 0 && group != 0 && group != j.group && !outside(group):
		return &Finding{path, fmt.Sprintf("can be changed by the group with the ID %d (mode %#o)", group, mode.Perm()), restrict("g-w", path)}
	case mode.Perm()&0o020 != 0: // the bit of the group is the mask of an access control list, if there is one
		return j.listed(path)
	}
	return nil
}

// listed judges the access control list of one directory or file.
func (j judge) listed(path string) *Finding {
	for _, w := range writers(path) {
		kind, own := "user", j.user
		if w.group {
			kind, own = "group", j.group
		}
		if w.id != 0 && w.id != own && !outside(w.id) {
			return &Finding{path, fmt.Sprintf("can be changed by the %s with the ID %d, in its access control list", kind, w.id), "setfacl --remove-all " + path}
		}
	}
	return nil
}

// writer is a user or a group in an access control list.
type writer struct {
	id    int
	group bool
}

// owner judges the owner of one directory, file or link.
func (j judge) owner(path string, info fs.FileInfo) *Finding {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	owner := int(stat.Uid)
	if owner == 0 || owner == j.user || outside(owner) {
		return nil
	}
	return &Finding{path, fmt.Sprintf("belongs to the user with the ID %d, who can change it", owner), fmt.Sprintf("chown %d %s", j.user, path)}
}
