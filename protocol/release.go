package protocol

import (
	"cmp"
	"fmt"
)

// Release is the only part of a version that the protocol compares. The zero
// value is release 0.0.0, a release like any other. Components are never
// negative.
type Release struct {
	Major, Minor, Patch int64
}

// Compare returns -1, 0 or +1 as r is below, equal to or above other.
func (r Release) Compare(other Release) int {
	return cmp.Or(
		cmp.Compare(r.Major, other.Major),
		cmp.Compare(r.Minor, other.Minor),
		cmp.Compare(r.Patch, other.Patch),
	)
}

// Less reports whether r is below other.
func (r Release) Less(other Release) bool { return r.Compare(other) < 0 }

// String returns "major.minor.patch".
func (r Release) String() string {
	return fmt.Sprintf("%d.%d.%d", r.Major, r.Minor, r.Patch)
}

// Valid reports whether no component is negative.
func (r Release) Valid() bool { return r.Major >= 0 && r.Minor >= 0 && r.Patch >= 0 }

// Version is a semantic version: a release, and parts that are only for people.
type Version struct {
	Release    Release
	Prerelease string // without the "-"; empty: none
	Build      string // without the "+"; empty: none
}

// String returns the version in the form of semver.org.
func (v Version) String() string {
	s := v.Release.String()
	if v.Prerelease != "" {
		s += "-" + v.Prerelease
	}
	if v.Build != "" {
		s += "+" + v.Build
	}
	return s
}
