package repotest

import "strings"

// pending has directories and files in which a rule of this package does not
// hold yet. A list only ever gets shorter: when a directory is clean, its name
// leaves the list.
type pending []string

// has reports whether name is a file of the list, or below a directory of it.
func (p pending) has(name string) bool {
	for _, entry := range p {
		if name == entry || strings.HasPrefix(name, entry+"/") {
			return true
		}
	}
	return false
}
