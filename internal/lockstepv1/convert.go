package lockstepv1

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// FromRelease returns the wire form of r.
func FromRelease(r protocol.Release) *Release {
	return &Release{Major: r.Major, Minor: r.Minor, Patch: r.Patch}
}

// FromVersion returns the wire form of v.
func FromVersion(v protocol.Version) *Version {
	return &Version{Release: FromRelease(v.Release), Prerelease: v.Prerelease, Build: v.Build}
}

// ToRelease converts and checks a release. nil is 0.0.0.
func ToRelease(r *Release) (protocol.Release, error) {
	out := protocol.Release{Major: r.GetMajor(), Minor: r.GetMinor(), Patch: r.GetPatch()}
	if !out.Valid() {
		return protocol.Release{}, fmt.Errorf("release %s has a negative part", out)
	}
	return out, nil
}

// ToVersion converts and checks a version. One without a release is an error, since
// it compares with nothing.
func ToVersion(v *Version) (protocol.Version, error) {
	if v.GetRelease() == nil {
		return protocol.Version{}, errors.New("no version")
	}
	r, err := ToRelease(v.GetRelease())
	if err != nil {
		return protocol.Version{}, err
	}
	return protocol.Version{Release: r, Prerelease: v.GetPrerelease(), Build: v.GetBuild()}, nil
}
