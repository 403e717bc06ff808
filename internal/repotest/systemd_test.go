package repotest

import (
	"regexp"
	"strings"
	"testing"
)

// A unit that is restarted again and again must not be given up by systemd: a bundle
// that is broken at boot would leave the node without a sidecar after it was repaired.
// Wrong flags (exit code 2) are not tried again.
func TestSystemdUnitIsRestarted(t *testing.T) {
	units := regexp.MustCompile("(?s)```ini\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	restarted := 0
	for _, unit := range units {
		if !strings.Contains(unit[1], "Restart=always") {
			continue
		}
		restarted++
		for _, line := range []string{"StartLimitIntervalSec=0", "RestartPreventExitStatus=2", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="} {
			if !strings.Contains(unit[1], "\n"+line+"\n") {
				t.Errorf("a unit has no line %s", line)
			}
		}
	}
	if restarted == 0 {
		t.Error("README.md has no unit for systemd")
	}
}
