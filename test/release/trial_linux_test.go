package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/jail"
)

const mayStart = "the next upgrade may start"

// trial is three machines, on which the part of docs/quickstart.md is typed that begins from a
// release.
type trial struct {
	*testing.T
	machines []*jail.Machine
	blocks   [][]string        // of commands, in the order of the page
	files    map[string]string // that the page has
	typed    *strings.Replacer
}

// TestTrial types the part of docs/quickstart.md that begins from a release, on three machines which
// have nothing but the package, a kube-apiserver and kubectl: a bundle of eight objects is brought
// to DONE, upgraded and rolled back, and Lockstep itself is upgraded, to the package of the release that
// make release-test NEXT=DIR names, or to the same one.
func TestTrial(t *testing.T) {
	const pattern, nextInside = "lockstep_*_" + runtime.GOARCH + ".deb", "/release/next.package"
	deb := one(t, pattern)
	next := cmp.Or(oneIn(t, os.Getenv("LOCKSTEP_NEXT_RELEASE"), pattern), deb)
	assets := cluster.Assets(t, "kube-apiserver", "kubectl")
	r := &trial{T: t, files: map[string]string{}}
	r.machines = jail.Machines(t, jail.Config{Install: true, Files: map[string]string{
		packageInside: deb, nextInside: next, "/opt/kube-apiserver": filepath.Join(assets, "kube-apiserver"), "/opt/kubectl": filepath.Join(assets, "kubectl"),
	}}, 3)
	r.readPage()
	first, others := r.machines[0], r.machines[1:]
	const package1, package2, address, token = "lockstep_0.1.0-1_amd64.deb", "lockstep_0.1.1-1_amd64.deb", "10.0.0.1", "lockstep1.fjbfbv.zsrbz3p3..."
	r.typed = strings.NewReplacer(package1, packageInside, package2, nextInside, address, first.Address)
	r.part("each machine is prepared", func() {
		for _, m := range r.machines {
			m.Run(databaseOfDpkg)
			r.typeAll(m, r.blocks[0])
			for name, text := range r.files {
				m.Run("cat >" + name + " <<'END'\n" + text + "END\n")
			}
		}
	})
	r.part("all have one key", func() {
		first.Run(r.blocks[1][0])
		for i, line := range r.blocks[1][1:] {
			r.copyFile(first, others[i], line)
		}
	})
	start, join, upgrade, rollback, itself := r.blocks[2], r.blocks[3], r.blocks[4], r.blocks[5], r.blocks[6]
	starts, creates := start[:len(start)-len(others)], start[len(start)-len(others):]
	r.part("the first node starts", func() { r.typeAll(first, starts) })
	r.part("the others start", func() {
		for i, m := range others {
			printed := first.Run(strings.Replace(creates[i], fmt.Sprintf("--node cp-%d", 2+i), "--node "+strings.TrimSpace(m.Run("hostname")), 1))
			found := regexp.MustCompile(`lockstep1\.\S+`).FindString(printed)
			if found == "" {
				t.Fatalf("no token is printed: %s", printed)
			}
			r.typed = strings.NewReplacer(package1, packageInside, package2, nextInside, address, first.Address, token, found)
			r.typeAll(m, join)
		}
	})
	r.want("red", "DONE, release 1.0.0", "10.77.0.3", mayStart)
	r.wantOneKey()
	r.upgrade(upgrade)
	r.want("blue", "DONE, release 1.1.0", mayStart)
	r.part("rolled back", func() {
		r.typeAll(first, rollback[:2])
		r.atOnce(rollback[2:])
	})
	r.want("red", "DONE, release 1.0.0")
	r.part("Lockstep is upgraded", func() { r.atOnce(itself) })
	r.want("red", mayStart)
	r.wantVersion(next)
}

// copyFile does what a line with scp says, which the machines do not have.
func (r *trial) copyFile(from, to *jail.Machine, line string) {
	r.Helper()
	found := regexp.MustCompile(`^scp (\S+) [0-9.]+:(\S+/)$`).FindStringSubmatch(line)
	if found == nil {
		r.Fatalf("%q copies no file to a directory of another machine", line)
	}
	to.Run("cat >" + found[2] + filepath.Base(found[1]) + " <<'END'\n" + from.Run("cat "+found[1]) + "END\n")
}

// wantOneKey requires that every kube-apiserver accepts the tokens that another one signs.
func (r *trial) wantOneKey() {
	r.Helper()
	const kubectl = "kubectl --kubeconfig /etc/lockstep/kubeconfig "
	for i, m := range r.machines {
		token := m.Run(kubectl + "create token agent -n acme")
		whose := kubectl + "auth whoami --token=" + strings.TrimSpace(token)
		if out, err := r.machines[(i+1)%len(r.machines)].Try(whose); err != nil || !strings.Contains(out, "system:serviceaccount:acme:agent") {
			r.Errorf("the next machine does not accept a token: %v: %s", err, out)
		}
	}
}

// upgrade types the block that writes the next bundle on each machine, looks at it on the first
// one, and ends with two lines for all.
func (r *trial) upgrade(block []string) {
	r.Helper()
	r.part("upgraded", func() {
		for _, m := range r.machines {
			r.typeAll(m, block[:3])
		}
		last := len(block) - 2
		for _, line := range block[3:last] {
			out, err := r.machines[0].Try(r.typed.Replace(line))
			if differs := strings.Contains(line, "bundle diff") && strings.Contains(out, "+  color: blue"); err != nil && !differs {
				r.Fatal(err)
			}
		}
		r.atOnce(block[last:])
	})
}

// wantVersion requires that the sidecar that runs on each machine is the program of a package.
func (r *trial) wantVersion(deb string) {
	r.Helper()
	version, _, _ := strings.Cut(strings.Split(filepath.Base(deb), "_")[1], "-") // lockstep_0.1.1-1_amd64.deb
	for _, m := range r.machines {
		// The link has another end while the file is one that was replaced since.
		runs := m.Run("readlink /proc/$(systemctl show -p MainPID --value lockstep-services)/exe")
		installed := m.Run("sidecar version")
		if runs != "/usr/bin/lockstep\n" || !strings.HasPrefix(installed, "sidecar v"+version+" ") {
			r.Errorf("%q runs, and is of %q; want the program of %s", runs, installed, deb)
		}
	}
}

// part logs how long a part took.
func (r *trial) part(what string, do func()) {
	r.Helper()
	began := time.Now()
	do()
	r.Logf("%s: %.0f s", what, time.Since(began).Seconds())
}

// typeAll types lines on a machine, and returns what the last one prints.
func (r *trial) typeAll(m *jail.Machine, lines []string) (out string) {
	r.Helper()
	for _, line := range lines {
		out = m.Run(r.typed.Replace(line))
	}
	return out
}

// atOnce types lines on all machines at the same time.
func (r *trial) atOnce(lines []string) {
	r.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(r.machines))
	for i, m := range r.machines {
		all.Go(func() {
			for _, line := range lines {
				if _, err := m.Try(r.typed.Replace(line)); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

// want requires a color in the bundle's ConfigMap, and texts in the status.
func (r *trial) want(color string, texts ...string) {
	r.Helper()
	m := r.machines[0]
	for _, other := range r.machines {
		other.Run("sidecar wait-ready --timeout 1m")
	}
	if got := m.Run("kubectl --kubeconfig /etc/lockstep/kubeconfig get configmap settings -n acme -o jsonpath={.data.color}"); got != color {
		r.Errorf("the color is %s, want %s", got, color)
	}
	cluster.Await(r.T, fmt.Sprintf("sidecar status to show %q", texts), func(context.Context) error {
		status, err := m.Try("sidecar status")
		for _, text := range texts {
			if err == nil && !strings.Contains(status, text) {
				err = fmt.Errorf("%q is missing:\n%s", text, status)
			}
		}
		return err
	})
}

// databaseOfDpkg makes what makeDatabase makes.
const databaseOfDpkg = `mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
printf '` + basePackage + `' >/var/lib/dpkg/status
printf '` + baseFiles + `' >/var/lib/dpkg/info/base.list`

// readPage reads commands and files of the page. The name of a file is the last path before it.
func (r *trial) readPage() {
	r.Helper()
	page, err := os.ReadFile("../../docs/quickstart.md")
	must(r.T, err)
	_, text, found := strings.Cut(string(page), `<a id="from-a-release"></a>`)
	text, _, ended := strings.Cut(text, "\n## Next\n")
	path := regexp.MustCompile("`(/[a-z0-9./-]+)`")
	before := 0
	for _, at := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatchIndex(text, -1) {
		language, content := text[at[2]:at[3]], text[at[4]:at[5]]
		if language != "console" {
			names := path.FindAllStringSubmatch(text[before:at[0]], -1)
			if len(names) == 0 {
				r.Fatalf("docs/quickstart.md does not name the file\n%s", content)
			}
			r.files[names[len(names)-1][1]] = content
		} else {
			var block []string
			for line := range strings.Lines(content) {
				block = append(block, strings.TrimPrefix(strings.TrimSpace(line), "# "))
			}
			r.blocks = append(r.blocks, block)
		}
		before = at[1]
	}
	if !found || !ended || len(r.blocks) != 7 || len(r.files) != 5 {
		r.Fatalf("docs/quickstart.md has %d blocks of commands and %d files, want 7 and 5", len(r.blocks), len(r.files))
	}
	if objects := strings.Count(r.files["/srv/acme-1.0.0/objects.yaml"], "kind: ConfigMap"); objects != 2 {
		r.Fatal(fmt.Errorf("the bundle has %d ConfigMaps, want 2", objects))
	}
}
