package lockstepv1

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// FromTime returns the wire form of a time; nil for the zero time.
func FromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ToTime returns the zero time for nil, and for an invalid time.
func ToTime(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

// Marshal panics on a string that is not UTF-8, the only thing that can fail here. IDs, URLs and
// reasons are checked where they enter the program.
func Marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", m, err))
	}
	return b
}
