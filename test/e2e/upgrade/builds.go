package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build is the kube-apiserver of a release.
type build struct {
	services string // directory of the services that run it
	version  string // that it reports
}

// Programs returns the kube-apiserver of each release. They differ only in the version that
// they report.
func Programs() map[string]string {
	return map[string]string{"1.0.0": "kube-apiserver", "1.1.0": "kube-apiserver-1.1.0", "1.2.0": "kube-apiserver-1.2.0"}
}

// serviceFile is the service that starts a kube-apiserver, and serviceLine the line of it
// with the program.
const (
	serviceFile = "10-kube-apiserver.yaml"
	serviceLine = "/kube-apiserver\" \\\n"
)

// newBuilds writes a directory of services for each release.
func newBuilds(cfg Config) (map[string]build, error) {
	text, err := os.ReadFile(filepath.Join(cfg.Services, serviceFile))
	if err != nil {
		return nil, err
	}
	if strings.Count(string(text), serviceLine) != 1 {
		return nil, fmt.Errorf("%s does not have the line of the program once: %q", serviceFile, serviceLine)
	}
	out := map[string]build{}
	for release, program := range Programs() {
		b := build{services: filepath.Join(cfg.Dir, "services", release)}
		if b.version, err = versionOf(filepath.Join(cfg.Assets, program)); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(b.services, 0o700); err != nil {
			return nil, err
		}
		const newLine = " \\\n"
		line := "/" + program + "\"" + newLine + "      " + strings.Join(apiArgs(), newLine+"      ") + newLine
		service := strings.Replace(string(text), serviceLine, line, 1)
		if err := os.WriteFile(filepath.Join(b.services, serviceFile), []byte(service), 0o600); err != nil {
			return nil, err
		}
		out[release] = b
	}
	return out, nil
}

// apiArgs are arguments of every kube-apiserver: JSON is for history, and clients that
// keep a connection are sent away before it ends (docs/load-balancers.md).
func apiArgs() []string {
	return []string{
		"--storage-media-type=application/json", "--shutdown-send-retry-after=true",
	}
}

// versionOf returns the version that a kube-apiserver prints: "Kubernetes v1.36.3".
func versionOf(program string) (string, error) {
	out, err := exec.Command(program, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %s", program, err, out)
	}
	_, version, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !found {
		return "", fmt.Errorf("%s --version printed %q", program, out)
	}
	return version, nil
}
