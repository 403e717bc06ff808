package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// ChangeFlag adds a flag to the kube-apiservers of a release. All nodes of that release read the same file, so it changes on
// all of them at one moment: each restarts its kube-apiserver in its turn (docs/protocol-nodes.md#service-turns). It returns
// the claim that all have.
func (w *Walk) ChangeFlag(release, flag string) (Claim, error) {
	claim := Claim{Text: "every kube-apiserver runs with " + flag, check: func(context.Context) error { return w.checkFlag(flag) }}
	file := filepath.Join(w.builds[release].services, serviceFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return claim, err
	}
	first := apiArgs()[0]
	changed := strings.Replace(string(text), first, flag+" "+first, 1)
	whole := filepath.Join(filepath.Dir(file), "."+serviceFile) // a sidecar must not read half of it
	if err := os.WriteFile(whole, []byte(changed), 0o600); err != nil {
		return claim, err
	}
	w.note("change the file of kube-apiserver on all nodes: " + flag)
	return claim, os.Rename(whole, file)
}

// checkFlag returns nil if every kube-apiserver was started with a flag.
func (w *Walk) checkFlag(flag string) error {
	var errs []error
	for _, n := range w.nodes {
		n.mu.Lock()
		sidecar := n.sidecar
		n.mu.Unlock()
		pid, err := apiserverOf(sidecar)
		var line []byte
		if err == nil {
			line, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		}
		if err == nil && !slices.Contains(strings.Split(string(line), "\x00"), flag) {
			err = fmt.Errorf("the kube-apiserver of %s runs without it", n.id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
