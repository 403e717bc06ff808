package repotest

import (
	"strings"
	"testing"
)

// A stop must reach the sidecar alone: it closes the gate before kube-apiserver gets SIGTERM. What
// confines a unit confines its children, too.
func TestSystemdUnitOfServices(t *testing.T) {
	unit := read(t, "deploy/systemd/lockstep-services.service")
	for _, line := range []string{
		"KillMode=mixed", "ExecStart=/usr/bin/sidecar run", "EnvironmentFile=-/etc/lockstep/env",
		"Restart=always", "StartLimitIntervalSec=0", "RestartPreventExitStatus=2",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	for _, option := range []string{"\nProtectSystem=", "\nCapabilityBoundingSet=", "\nPrivate"} {
		if strings.Contains(unit, option) {
			t.Errorf("the unit confines its services: %s", strings.TrimSpace(option))
		}
	}
}

// A unit that is restarted again and again must not be given up by systemd: a bundle
// that is broken at boot would leave the node without a sidecar after it was repaired.
// Wrong flags (exit code 2) are not tried again.
func TestSystemdUnitIsRestarted(t *testing.T) {
	unit := read(t, "deploy/systemd/lockstep.service")
	for _, line := range []string{
		"PartOf=kube-apiserver.service", "After=kube-apiserver.service", "WantedBy=kube-apiserver.service",
		"ExecStart=/usr/bin/sidecar run", "EnvironmentFile=-/etc/lockstep/env", // a flag here would win over the file
		"Restart=always", "StartLimitIntervalSec=0", "RestartPreventExitStatus=2",
		"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
}

// Who types the README's commands has the program where the unit starts it.
func TestSystemdUnitStartsWhatTheReadmeCopies(t *testing.T) {
	readme := read(t, "README.md")
	const copies = "\n# cp bin/sidecar /usr/bin/\n"
	if !strings.Contains(readme, copies) || strings.Contains(readme, "/usr/local/bin") {
		t.Errorf("README.md has no line %q, or another directory for the program; the units start /usr/bin/sidecar", copies)
	}
}
