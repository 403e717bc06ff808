package trusted

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// readOnly reports whether the mode of a file does not matter, since its file system is mounted
// read-only and no user can change it here: so is a ConfigMap or a Secret in a pod, whose
// directory has the mode 777.
func readOnly(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}

// writers returns who may write by the access control list of a file (acl(5)), of which the mask allows it; nil: it has none.
func writers(path string) (out []writer) {
	const attribute = "system.posix_acl_access"
	size, err := unix.Getxattr(path, attribute, nil)
	if err != nil {
		return nil // it has none, or its file system knows none
	}
	list := make([]byte, size)
	if size, err = unix.Getxattr(path, attribute, list); err != nil {
		return nil // it was removed just now
	}
	// Of linux/posix_acl_xattr.h: a version, and entries of a kind, rights and an ID.
	const version, entry, mayWrite, user, group = 4, 8, 2, 2, 8
	for e := range slices.Chunk(list[min(version, size):size], entry) {
		if len(e) < entry || binary.LittleEndian.Uint16(e[2:])&mayWrite == 0 {
			continue
		}
		switch binary.LittleEndian.Uint16(e) {
		case user:
			out = append(out, writer{id: int(binary.LittleEndian.Uint32(e[4:]))})
		case group:
			out = append(out, writer{id: int(binary.LittleEndian.Uint32(e[4:])), group: true})
		}
	}
	return out
}

// overflow is the ID of files whose owner does not exist in the user namespace of this process
// (user_namespaces(7)).
const overflow = 65534

// outside reports whether an owner or a group may be none of this user namespace: in a container
// with its own namespace, the files of the machine show the ID overflow. On the machine itself, that
// is a user like others.
func outside(id int) bool { return id == overflow && contained() }

// contained reports whether this process runs in its own user namespace.
var contained = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !everyID(string(text))
})

// everyID reports whether a map of IDs, as in uid_map, is the machine's.
func everyID(text string) bool {
	return slices.Equal(strings.Fields(text), []string{"0", "0", "4294967295"})
}
