// Package release tests the files that build/release has made: each program in them says its version, and the package is
// installed and its unit started as README.md has it, on a machine of a real systemd (package jail). The
// directory with the files is in LOCKSTEP_RELEASE, which make release-test sets.
package release
