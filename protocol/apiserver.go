package protocol

import (
	"fmt"
	"strings"
)

// APIServerProblem says why a kube-apiserver does not fit the version that a bundle is for.
// It returns "" if it fits. answered is the gitVersion in the kube-apiserver's /version; empty:
// no answer yet (docs/protocol-nodes.md#apiserver-version).
//
// wanted is MAJOR.MINOR or MAJOR.MINOR.PATCH, and is compared as far as it goes: 1.36 fits
// v1.36.2, and v1.36.0-rc.1 as well. wanted empty: every version fits.
func APIServerProblem(wanted, answered string) string {
	switch {
	case wanted == "":
		return ""
	case answered == "":
		return fmt.Sprintf("the bundle is for kube-apiserver %s, and the one of this node has not said its version yet: "+
			"it does not run, or does not answer /version", wanted)
	case fitsVersion(wanted, answered):
		return ""
	}
	return fmt.Sprintf("the bundle is for kube-apiserver %s (apiserverVersion in bundle.yaml), and the one of this node is %s; "+
		"start the kube-apiserver of this release", wanted, answered)
}

// fitsVersion compares numbers only. It ignores a suffix of answered, such as +k3s1.
func fitsVersion(wanted, answered string) bool {
	numbers := strings.TrimPrefix(answered, "v")
	if end := strings.IndexFunc(numbers, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		numbers = numbers[:end]
	}
	return strings.HasPrefix(numbers+".", wanted+".")
}
