package trusted

import (
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
