package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/jail"
)

const (
	packageInside = "/release/lockstep.package"
	pageInside    = "/release/README.md"
	envFile       = "/etc/lockstep/env"
)

// files is the directory with the files of the release.
func files(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LOCKSTEP_RELEASE")
	if dir == "" {
		t.Skip("SKIPPED, NOT TESTED: needs the files of a release: make release-test RELEASE=DIR")
	}
	return dir
}

// one is the only file of the release with such a name. In a jail there is none, and none is needed.
func one(t *testing.T, pattern string) string {
	t.Helper()
	return oneIn(t, files(t), pattern)
}

// oneIn is the only such file of a release's directory, or empty.
func oneIn(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) > 1 {
		t.Fatalf("%s: got %v, %v", pattern, found, err)
	}
	return strings.Join(found, "")
}

// rpms are the architectures, as rpm calls them.
var rpms = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// TestPackage types the lines of README.md that install the Debian package.
func TestPackage(t *testing.T) {
	if !enterForPackage(t, one(t, "lockstep_*_"+runtime.GOARCH+".deb")) {
		return
	}
	makeDatabase(t)
	line := packageLines(t)[0]
	if !strings.HasPrefix(line, "dpkg -i lockstep_") {
		t.Fatalf("README.md has the line %q", line)
	}
	run(t, "dpkg -i "+packageInside)
	testInstalled(t)
	run(t, "dpkg -r lockstep")
	if text, err := os.ReadFile(envFile); err != nil || !strings.Contains(string(text), "LOCKSTEP_ETCD=embedded") {
		t.Errorf("the package is removed, and the flags are not kept: %s, %v", text, err)
	}
	wantRemoved(t)
}

// TestPackage_rpm is the same for the other package.
func TestPackage_rpm(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: needs rpm: apt-get install --no-install-recommends rpm")
	}
	if !enterForPackage(t, one(t, "lockstep-*."+rpms[runtime.GOARCH]+".rpm")) {
		return
	}
	line := packageLines(t)[1]
	if !strings.HasPrefix(line, "rpm -i lockstep-") {
		t.Fatalf("README.md has the line %q", line)
	}
	run(t, "rpm -i "+onDebian+packageInside)
	if out := run(t, "rpm -V "+onDebian+"lockstep"); out != "" {
		t.Errorf("files differ from the package: %s", out)
	}
	testInstalled(t)
	run(t, "rpm -e "+onDebian+"lockstep")
	if text, err := os.ReadFile(envFile + ".rpmsave"); err != nil || !strings.Contains(string(text), "LOCKSTEP_ETCD=embedded") {
		t.Errorf("the package is removed, and the flags are not kept: %s, %v", text, err)
	}
	wantRemoved(t)
}

// onDebian are the flags without which Debian's rpm refuses, since dpkg has the packages that this
// one could need.
const onDebian = "--force-debian --nodeps "

// enterForPackage enters a machine with a kube-apiserver, on which a package lies.
func enterForPackage(t *testing.T, file string) bool {
	t.Helper()
	return jail.Enter(t, jail.Config{
		Units:   map[string]string{"kube-apiserver.service": "[Service]\nExecStart=sleep infinity\n"},
		Files:   map[string]string{packageInside: file, pageInside: "../../README.md"},
		Install: true,
	})
}

// packageLines are the lines of README.md that install a package.
func packageLines(t *testing.T) []string {
	t.Helper()
	typed := typedLines(t, "**A package**")
	if len(typed) != 2 {
		t.Fatalf("README.md has the lines %q", typed)
	}
	return typed
}

// testInstalled requires that the programs and the units of the package run.
func testInstalled(t *testing.T) {
	t.Helper()
	for _, program := range []string{"lockstep", "sidecar", "kubectl-lockstep"} {
		wantVersion(t, run(t, program+" version -o json"), "linux/"+runtime.GOARCH)
	}
	// Without flags the unit fails, says which are missing, and does not try again.
	run(t, "systemctl start kube-apiserver lockstep")
	await(t, "the unit to fail", "ActiveState=failed", "ExecMainStatus=2", "NRestarts=0")
	run(t, "systemctl reset-failed lockstep")
	writeEnv(t)
	typed := typedLines(t, "says what is missing")
	if len(typed) != 5 || typed[2] != "systemctl enable lockstep" || typed[3] != "systemctl start lockstep" {
		t.Fatalf("README.md has the lines %q", typed)
	}
	run(t, typed[2])
	run(t, typed[3])
	awaitEtcd(t)
	// The unit stops and starts with kube-apiserver.
	run(t, "systemctl stop kube-apiserver")
	await(t, "the unit to stop", "ActiveState=inactive", "Result=success")
	run(t, "systemctl start kube-apiserver")
	awaitEtcd(t)
	run(t, "systemctl stop kube-apiserver")
	// The other unit runs on the same data, with the same flags.
	run(t, "systemctl start lockstep-services")
	awaitEtcd(t)
	run(t, "systemctl stop lockstep-services")
}

func wantRemoved(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/sidecar"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the package is removed, and its program is there: %v", err)
	}
}

// makeDatabase makes the database of dpkg, which is missing in an empty root, with a package that owns the directories of
// every machine: dpkg leaves those alone.
func makeDatabase(t *testing.T) {
	t.Helper()
	const dir = "/var/lib/dpkg"
	for _, name := range []string{"info", "updates", "triggers"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, errors.Join(os.WriteFile(dir+"/status", []byte(basePackage), 0o600), os.WriteFile(dir+"/info/base.list", []byte(baseFiles), 0o600)))
}

// basePackage and baseFiles are in the database of dpkg.
const (
	basePackage = "Package: base\nStatus: install ok installed\nMaintainer: x\nArchitecture: all\nVersion: 1\nDescription: x\n"
	baseFiles   = "/.\n/etc\n/usr\n/usr/bin\n/usr/lib\n/usr/lib/systemd\n/usr/lib/systemd/system\n/usr/share\n"
)

// typedLines are the lines of the first block of README.md behind a text.
func typedLines(t *testing.T, behind string) (out []string) {
	t.Helper()
	page, err := os.ReadFile(pageInside)
	must(t, err)
	_, text, _ := strings.Cut(string(page), behind)
	block := regexp.MustCompile("(?s)```console\n(.*?)```").FindStringSubmatch(text)
	if block == nil {
		t.Fatalf("README.md has no block behind %q", behind)
	}
	for line := range strings.Lines(block[1]) {
		command, _, _ := strings.Cut(strings.TrimLeft(line, "#$ "), " #")
		out = append(out, strings.TrimSpace(command))
	}
	return out
}

// awaitEtcd waits until the sidecar runs its etcd: then its gate waits for the first status.
func awaitEtcd(t *testing.T) {
	t.Helper()
	cluster.Await(t, "the sidecar to run its etcd", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "sidecar", "status").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "StatusMissing") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// writeEnv writes the file as people do in their editor.
func writeEnv(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(envFile)
	must(t, err)
	for name, value := range map[string]string{
		"BUNDLE": "builtin", "KUBECONFIG": "/etc/lockstep/kubeconfig", "ETCD": "embedded", "NODE_ID": "a", "NODE_ADDRESS": "127.0.0.1",
	} {
		text = fmt.Appendf(text, "LOCKSTEP_%s=%s\n", name, value)
	}
	must(t, os.WriteFile(envFile, text, 0o600))
	must(t, os.WriteFile("/etc/lockstep/kubeconfig", []byte(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
`), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = "/" // the directory of the test does not exist on every machine
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// await waits until the properties of the unit are these.
func await(t *testing.T, what string, properties ...string) {
	t.Helper()
	cluster.Await(t, what, func(context.Context) error {
		out := run(t, "systemctl show lockstep --property=ActiveState,ExecMainStatus,NRestarts,Result")
		for _, p := range properties {
			if !strings.Contains("\n"+out, "\n"+p+"\n") {
				return fmt.Errorf("got %s, want %s", out, p)
			}
		}
		return nil
	})
}
