package bundle

import (
	"strings"
	"testing"
)

func TestValidAPIServerVersion(t *testing.T) {
	for version, want := range map[string]bool{
		"1.36": true, "1.36.2": true, "0.0": true, "10.20.30": true,
		"": false, "1": false, "v1.36": false, "1.36.2.1": false, "1.": false, "1..2": false, "1.36-rc.1": false,
		"01.36": false, "1.036": false, "1.36 ": false, "1." + strings.Repeat("9", 40): false,
	} {
		if got := validAPIServerVersion(version); got != want {
			t.Errorf("%q: got %t, want %t", version, got, want)
		}
	}
}
