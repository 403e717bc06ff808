package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/jail"
)

// TestFiles: the sums of README.md are right, and archive, packages and image have the same program for an
// architecture. What it says of itself is true.
func TestFiles(t *testing.T) {
	dir := files(t)
	script := "cd " + dir + " && sha256sum -c SHA256SUMS"
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	inImage := programsOfImage(t, one(t, "lockstep_*_image.tar"))
	for _, arch := range []string{"amd64", "arm64"} {
		archive, deb, rpm := one(t, "lockstep_*_linux_"+arch+".tar.gz"), one(t, "lockstep_*_"+arch+".deb"), one(t, "lockstep-*."+rpms[arch]+".rpm")
		root := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		output := func(script string) []byte {
			out, err := exec.CommandContext(t.Context(), "bash", "-c", script).Output()
			must(t, err)
			return out
		}
		program := output("tar -xzOf " + archive + " " + root + "/lockstep")
		digest := fmt.Sprintf("%x", sha256.Sum256(program))
		if packed := output("dpkg-deb --fsys-tarfile " + deb + " | tar -xO ./usr/bin/lockstep"); !bytes.Equal(packed, program) {
			t.Errorf("%s: the Debian package has another program than the archive", arch)
		}
		if !slices.Contains(inImage, digest) {
			t.Errorf("%s: the image has other programs than the archive", arch)
		}
		if _, err := exec.LookPath("rpm"); err != nil {
			t.Log("SKIPPED, NOT TESTED: the program in the .rpm needs rpm: apt-get install --no-install-recommends rpm")
		} else if inside := string(output("rpm -qp --queryformat '[%{FILENAMES} %{FILEDIGESTS}\n]' " + rpm)); !strings.Contains(inside, "/usr/bin/lockstep "+digest+"\n") {
			t.Errorf("%s: the other package has another program than the archive:\n%s", arch, inside)
		}
		if links := string(output("tar -tvzf " + archive)); !strings.Contains(links, root+"/sidecar -> lockstep") || !strings.Contains(links, root+"/kubectl-lockstep -> lockstep") {
			t.Errorf("%s: the archive has\n%s", arch, links)
		}
		wantTrueVersion(t, program, arch)
	}
}

// programsOfImage returns the digests of all programs in an image.
func programsOfImage(t *testing.T, image string) (out []string) {
	t.Helper()
	f, err := os.Open(image)
	must(t, err)
	defer f.Close()
	for blobs := tar.NewReader(f); ; {
		_, err := blobs.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		unzipped, err := gzip.NewReader(blobs)
		if err != nil {
			continue // no layer
		}
		for layer := tar.NewReader(unzipped); ; {
			h, err := layer.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			sum := sha256.New()
			_, err = io.Copy(sum, layer)
			must(t, err)
			if filepath.Base(h.Name) == "sidecar" {
				out = append(out, hex.EncodeToString(sum.Sum(nil)))
			}
		}
	}
}

// wantTrueVersion runs a program, if this machine can; otherwise it reads the stamps.
func wantTrueVersion(t *testing.T, program []byte, arch string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockstep")
	must(t, os.WriteFile(file, program, 0o700))
	line := file + " version -o json"
	if emulator, err := exec.LookPath("qemu-aarch64"); arch == "arm64" && err == nil {
		line = emulator + " " + line
	} else if arch != runtime.GOARCH {
		info, err := buildinfo.ReadFile(file)
		must(t, err)
		if !slices.Contains(info.Settings, debug.BuildSetting{Key: "GOARCH", Value: arch}) {
			t.Errorf("%s: the program is built with %v", arch, info.Settings)
		}
		if !bytes.Contains(program, []byte(versionOf(t))) {
			t.Errorf("%s: the program does not contain its version", arch)
		}
		return
	}
	if got := wantVersion(t, run(t, line), "linux/"+arch); got != versionOf(t) {
		t.Errorf("%s: got %s, want %s", arch, got, versionOf(t))
	}
}

// wantVersion requires that what a program says of itself is complete, and returns its version.
func wantVersion(t *testing.T, printed, platform string) string {
	t.Helper()
	var got struct{ Version, Commit, Date, GoVersion, Platform string }
	must(t, json.Unmarshal([]byte(printed), &got))
	if _, err := time.Parse(time.RFC3339, got.Date); err != nil || !strings.HasPrefix(got.Version, "v") || len(got.Commit) != 40 || got.GoVersion == "" || got.Platform != platform {
		t.Errorf("got %s, want version, commit, date and %s", printed, platform)
	}
	return got.Version
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
