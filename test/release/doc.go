// Package release tests the files that build/release made: each program in them prints its version, and the package is
// installed and its unit started by the commands of README.md, on a machine of a real systemd (package jail).
// LOCKSTEP_RELEASE, which make release-test sets, names the directory of the files, and
// LOCKSTEP_NEXT_RELEASE the one of the release to which TestTrial upgrades them.
package release
