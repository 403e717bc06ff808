package semver

import (
	"strings"
	"testing"
	"testing/quick"

	"github.com/lockstep-dev/lockstep/protocol"
)

func release(major, minor, patch int64) protocol.Release {
	return protocol.Release{Major: major, Minor: minor, Patch: patch}
}

func TestParseRelease(t *testing.T) {
	for in, want := range map[string]protocol.Release{
		"1.2.3":                   release(1, 2, 3),
		"v1.2.3":                  release(1, 2, 3),
		"0.0.0":                   {},
		"10000.0.0":               release(10000, 0, 0),
		"1.2.9223372036854775807": release(1, 2, 9223372036854775807),
	} {
		got, err := ParseRelease(in)
		if err != nil || got != want {
			t.Errorf("ParseRelease(%q): got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "v", "1", "1.2", "1.2.3.4", "1.02.3", "01.2.3", "-1.2.3", "1.-2.3", "1.2.-3", "1.2.9223372036854775808",
		"1.2.x", "1..3", " 1.2.3", "1.2.3 ", "1.2.3\n", "vv1.2.3", "V1.2.3", "1.2.3-rc.1", "1.2.3+g0abc", "1,2,3", "+1.2.3", "１.2.3",
	} {
		if got, err := ParseRelease(in); err == nil {
			t.Errorf("ParseRelease(%q): got %v, want an error", in, got)
		} else if !strings.Contains(err.Error(), "version") && !strings.Contains(err.Error(), "release") {
			t.Errorf("ParseRelease(%q): the error does not say of what: %v", in, err)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]protocol.Version{
		"1.2.3":                   {Release: release(1, 2, 3)},
		"v1.2.3-rc.1+g0abc":       {Release: release(1, 2, 3), Prerelease: "rc.1", Build: "g0abc"},
		"1.2.3-rc.1+g0abc":        {Release: release(1, 2, 3), Prerelease: "rc.1", Build: "g0abc"},
		"1.2.3+001":               {Release: release(1, 2, 3), Prerelease: "", Build: "001"},
		"1.2.3-0a.-.--":           {Release: release(1, 2, 3), Prerelease: "0a.-.--", Build: ""},
		"1.2.3+build-with-dash.7": {Release: release(1, 2, 3), Prerelease: "", Build: "build-with-dash.7"},
	} {
		got, err := ParseVersion(in)
		if err != nil || got != want {
			t.Errorf("ParseVersion(%q): got %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3-01", "1.2.3-ä", "1.2.3-a b", "1.2.3+a+b", "1.2-rc.3"} {
		if got, err := ParseVersion(in); err == nil {
			t.Errorf("ParseVersion(%q): got %+v, want an error", in, got)
		}
	}
}

func TestVersion_roundTrip(t *testing.T) {
	back := func(major, minor, patch uint32, pre, build bool) bool {
		v := protocol.Version{Release: release(int64(major), int64(minor), int64(patch))}
		if pre {
			v.Prerelease = "rc.1"
		}
		if build {
			v.Build = "g0abc"
		}
		got, err := ParseVersion(v.String())
		return err == nil && got == v
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
}
