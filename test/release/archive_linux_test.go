package release

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/jail"
)

// TestFiles: the sums of README.md are right, and each package contains the program of the archive.
func TestFiles(t *testing.T) {
	dir := files(t)
	script := "cd " + dir + " && sha256sum -c SHA256SUMS"
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		archive, deb := one(t, "lockstep_*_linux_"+arch+".tar.gz"), one(t, "lockstep_*_"+arch+".deb")
		root := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		program := func(script string) []byte {
			out, err := exec.CommandContext(t.Context(), "bash", "-c", script).Output()
			must(t, err)
			return out
		}
		unpacked := program("tar -xzOf " + archive + " " + root + "/lockstep")
		if packed := program("dpkg-deb --fsys-tarfile " + deb + " | tar -xO ./usr/bin/lockstep"); !bytes.Equal(packed, unpacked) {
			t.Errorf("%s: the package has another program than the archive", arch)
		}
		if links := string(program("tar -tvzf " + archive)); !strings.Contains(links, root+"/sidecar -> lockstep") || !strings.Contains(links, root+"/kubectl-lockstep -> lockstep") {
			t.Errorf("%s: the archive has\n%s", arch, links)
		}
	}
}

// TestArchive types the lines of README.md that install the archive.
func TestArchive(t *testing.T) {
	archive := one(t, "lockstep_*_linux_"+runtime.GOARCH+".tar.gz")
	const inside = "/release/archive.tar.gz"
	if !jail.Enter(t, jail.Config{Files: map[string]string{inside: archive, pageInside: "../../README.md"}, Install: true}) {
		return
	}
	typed := strings.Join(typedLines(t, "**The archive**"), "\n")
	const name = "lockstep_0.1.0_linux_amd64"
	if strings.Count(typed, name) != 2 {
		t.Fatalf("README.md has\n%s", typed)
	}
	// Of this release and machine.
	root, err := exec.CommandContext(t.Context(), "bash", "-c", "tar -tzf "+inside+" | sed -n '1s,/.*,,p'").Output()
	must(t, err)
	typed = strings.NewReplacer(name+".tar.gz", inside, name, strings.TrimSpace(string(root))).Replace(typed)
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", typed)
	cmd.Dir = "/root"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "sidecar v") {
		t.Errorf("%s\ngot %v: %s", typed, err, out)
	}
	if out := run(t, "/usr/bin/kubectl-lockstep version"); !strings.Contains(out, "v") {
		t.Errorf("got %s", out)
	}
}
