// Package semver parses semantic versions into the values of package protocol. It
// is strict: exactly major.minor.patch, no leading zeros, no spaces. The grammar
// is that of golang.org/x/mod/semver (docs/adr/0001). It has no state.
package semver

import (
	"fmt"
	"strconv"
	"strings"

	xsemver "golang.org/x/mod/semver"

	"github.com/lockstep-dev/lockstep/protocol"
)

// ParseVersion parses a semantic version, with or without a leading "v". The
// error names what was parsed and says what is wrong with it.
func ParseVersion(s string) (protocol.Version, error) {
	bare := strings.TrimPrefix(s, "v")
	prerelease, build := xsemver.Prerelease("v"+bare), xsemver.Build("v"+bare)
	core := strings.TrimSuffix(strings.TrimSuffix(bare, build), prerelease)
	parts := strings.Split(core, ".")
	switch {
	case len(parts) != 3: // the library also accepts v1 and v1.2
		return protocol.Version{}, fmt.Errorf("version %q: want major.minor.patch, like 1.2.3", s)
	case !xsemver.IsValid("v" + bare):
		return protocol.Version{}, fmt.Errorf("version %q: not a semantic version (semver.org)", s)
	}
	var n [3]int64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return protocol.Version{}, fmt.Errorf("version %q: %s is too large", s, part)
		}
	}
	return protocol.Version{
		Release:    protocol.Release{Major: n[0], Minor: n[1], Patch: n[2]},
		Prerelease: strings.TrimPrefix(prerelease, "-"),
		Build:      strings.TrimPrefix(build, "+"),
	}, nil
}

// ParseRelease parses "1.2.3" or "v1.2.3" and nothing else. The error names what
// was parsed and says what is wrong with it.
func ParseRelease(s string) (protocol.Release, error) {
	v, err := ParseVersion(s)
	if err != nil {
		return protocol.Release{}, err
	}
	if v.Prerelease != "" || v.Build != "" {
		return protocol.Release{}, fmt.Errorf("release %q: has more than major.minor.patch", s)
	}
	return v.Release, nil
}
