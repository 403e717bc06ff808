package protocol

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Release is the only part of a version that the protocol compares (DESIGN 2).
// The zero value is release 0.0.0, a release like any other. Components are
// never negative.
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

// Version is a SemVer: a release, and what only people read.
type Version struct {
	Release    Release
	Prerelease string // without the "-"; empty: none
	Build      string // without the "+"; empty: none
}

// String returns the version in SemVer's form.
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

// ParseRelease parses "1.2.3" or "v1.2.3" and nothing else. The error says
// what is wrong with s.
func ParseRelease(s string) (Release, error) {
	v, err := ParseVersion(s)
	if err != nil {
		return Release{}, err
	}
	if v.Prerelease != "" || v.Build != "" {
		return Release{}, fmt.Errorf("release %q: has more than major.minor.patch", s)
	}
	return v.Release, nil
}

// ParseVersion parses a SemVer 2.0.0, with or without a leading "v". The error
// says what is wrong with s.
func ParseVersion(s string) (Version, error) {
	core, build, hasBuild := strings.Cut(strings.TrimPrefix(s, "v"), "+")
	core, pre, hasPre := strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("version %q: want major.minor.patch, like 1.2.3", s)
	}
	var n [3]int64
	for i, part := range parts {
		var err error
		if n[i], err = parseNumber(part); err != nil {
			return Version{}, fmt.Errorf("version %q: %w", s, err)
		}
	}
	if hasPre {
		if err := checkIdentifiers(pre, numericHasNoLeadingZero); err != nil {
			return Version{}, fmt.Errorf("version %q: prerelease: %w", s, err)
		}
	}
	if hasBuild {
		if err := checkIdentifiers(build, nil); err != nil {
			return Version{}, fmt.Errorf("version %q: build metadata: %w", s, err)
		}
	}
	return Version{Release: Release{n[0], n[1], n[2]}, Prerelease: pre, Build: build}, nil
}

func parseNumber(s string) (int64, error) {
	if s == "" || !isDigits(s) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if err := numericHasNoLeadingZero(s); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return n, nil
}

// checkIdentifiers checks dot-separated SemVer identifiers; extra, where not
// nil, checks each one that consists of digits only.
func checkIdentifiers(s string, extra func(string) error) error {
	for id := range strings.SplitSeq(s, ".") {
		if id == "" {
			return fmt.Errorf("%q has an empty part", s)
		}
		for _, c := range []byte(id) {
			if !isIdentifierByte(c) {
				return fmt.Errorf("%q has a character that is not allowed: %q", s, c)
			}
		}
		if extra != nil && isDigits(id) {
			if err := extra(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func numericHasNoLeadingZero(s string) error {
	if len(s) > 1 && s[0] == '0' {
		return fmt.Errorf("%s has a leading zero", s)
	}
	return nil
}

func isIdentifierByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-'
}

func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
