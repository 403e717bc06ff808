package protocol

import (
	"strings"
	"testing"
	"testing/quick"
)

func TestParseRelease(t *testing.T) {
	for in, want := range map[string]Release{
		"1.2.3":                   {1, 2, 3},
		"v1.2.3":                  {1, 2, 3},
		"0.0.0":                   {},
		"10000.0.0":               {10000, 0, 0},
		"1.2.9223372036854775807": {1, 2, 9223372036854775807},
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
	for in, want := range map[string]Version{
		"1.2.3":                   {Release: Release{1, 2, 3}},
		"v1.2.3-rc.1+g0abc":       {Release{1, 2, 3}, "rc.1", "g0abc"},
		"1.2.3-rc.1+g0abc":        {Release{1, 2, 3}, "rc.1", "g0abc"},
		"1.2.3+001":               {Release{1, 2, 3}, "", "001"},
		"1.2.3-0a.-.--":           {Release{1, 2, 3}, "0a.-.--", ""},
		"1.2.3+build-with-dash.7": {Release{1, 2, 3}, "", "build-with-dash.7"},
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
		v := Version{Release: Release{int64(major), int64(minor), int64(patch)}}
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

func TestRelease_Compare(t *testing.T) {
	ordered := []Release{{}, {0, 0, 2}, {0, 0, 10}, {0, 1, 0}, {0, 9, 9}, {1, 0, 0}, {1, 0, 1}, {10, 0, 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s.Compare(%s): got %d, want %d", a, b, got, want)
			}
			if got := a.Less(b); got != (want < 0) {
				t.Errorf("%s.Less(%s): got %t", a, b, got)
			}
		}
	}
}
