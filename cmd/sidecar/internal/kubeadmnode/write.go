package kubeadmnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/shell"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// write checks everything before it writes anything.
func (p program) write(ctx context.Context, f kubeadmFlags) error {
	settings, err := f.settings()
	if err != nil {
		return err
	}
	var release *bundle.Bundle
	switch f.bundle {
	case "":
	case bundle.BuiltinName:
		settings.Bundle = bundle.BuiltinName
	default:
		if release, err = bundle.Load(f.bundle); err != nil {
			return p.ProblemsIn("bundle", f.bundle, err)
		}
		settings.Bundle = path.Join(kubeadm.DefaultDir, kubeadm.BundlesDir, release.Version.String())
	}
	named := settings
	named.Bundle = cmp.Or(settings.Bundle, bundle.BuiltinName)
	if _, err := runOptions(named.RunArgs(), func(string) (string, bool) { return "", false }, f.nodeID); err != nil {
		return console.Usagef("the flags of sidecar run: %w", err)
	}
	if err := requiredFlags(settings); err != nil {
		return err
	}
	pod, err := readManifest(f.manifest())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	server, err := f.server(ctx, pod)
	if err != nil {
		return err
	}
	own, err := openFiles(f.dir, f.force)
	if err != nil {
		return err
	}
	files, ofBundle, err := p.content(ctx, f, settings, release)
	if err != nil {
		return err
	}
	if err := own.refuse(files, f); err != nil {
		return err
	}
	if release != nil {
		if err := p.copyBundle(f, release); err != nil {
			return err
		}
	}
	if err := p.writeFiles(f, own, contents{settings, files, ofBundle}); err != nil {
		return err
	}
	hasIdentity, err := p.writeIdentity(f, own, server, settings)
	if err != nil {
		return err
	}
	p.printNext(f, pod, nextSteps{server: server, identity: hasIdentity, settings: settings})
	return nil
}

// settings returns the settings of the call before, changed by this one's.
func (f kubeadmFlags) settings() (kubeadm.Settings, error) {
	var before kubeadm.Settings
	https := f.https
	content, err := os.ReadFile(f.podPatch())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		https = https || !kubeadm.ChoosesListener(f.args)
	case err != nil:
		return before, err
	default:
		if before, err = kubeadm.ReadSettings(content); err != nil {
			return before, fmt.Errorf("%s: %w; correct the file, or remove it and set --image and all other flags again", f.podPatch(), err)
		}
	}
	if before.ServesHTTPS() && kubeadm.WantsPlain(f.args) {
		before = before.WithoutListener()
	}
	now := before.Overlay(kubeadm.Settings{Image: f.image, Args: f.args})
	if https {
		now = now.WithoutListener().Overlay(kubeadm.Settings{Args: kubeadm.ServingArgs()})
	}
	now.Dir = f.dir
	return now, nil
}

// requiredFlags names all flags that are missing in a first call.
func requiredFlags(s kubeadm.Settings) error {
	var out []error
	if s.Image == "" {
		out = append(out, console.Usagef("--image: required at the first call: the image of the sidecar, from a release or made with the Dockerfile of Lockstep"))
	}
	if s.Bundle == "" {
		out = append(out, console.Usagef("--bundle: required at the first call: the directory of the bundle, or %s for the built-in one, to try Lockstep out", bundle.BuiltinName))
	}
	return errors.Join(out...)
}

// readManifest reads kube-apiserver's manifest. The pod is empty if there is none.
func readManifest(file string) (kubeadm.Pod, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return kubeadm.Pod{}, err
	}
	pod, err := kubeadm.ParsePod(content)
	if err != nil {
		return pod, fmt.Errorf("%s: %w", file, err)
	}
	return pod, nil
}

// Modes of the written files. A bundle may contain Secrets.
const (
	modeDir, modeFile       fs.FileMode = 0o755, 0o644
	modePrivate, modeSecret fs.FileMode = 0o700, 0o600
)

// copyBundle copies a bundle to the directory of its release. The directory of the release that the node runs
// stays: a restart of its sidecar needs it.
func (p program) copyBundle(f kubeadmFlags, b *bundle.Bundle) error {
	parent := filepath.Join(f.dir, kubeadm.BundlesDir)
	target := filepath.Join(parent, b.Version.String())
	if err := os.MkdirAll(f.dir, modeDir); err != nil {
		return err
	}
	if err := os.MkdirAll(parent, modePrivate); err != nil {
		return err
	}
	if there, err := bundle.Load(target); err != nil || there.Digest != b.Digest {
		temp, old := filepath.Join(parent, ".new"), filepath.Join(parent, ".old")
		if err := errors.Join(os.RemoveAll(temp), os.RemoveAll(old), copyManifests(f.bundle, temp)); err != nil {
			return err
		}
		if err := os.Rename(target, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.Rename(temp, target), durable.SyncDir(parent), os.RemoveAll(old)); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.Stdout, "wrote %s: release %s, %s, %s\n", target, b.Version, terminal.Count(len(b.Objects), "object"), terminal.ShortDigest(b.Digest))
	return nil
}

// copyManifests copies the files of a bundle. It follows links, as the loader does.
func copyManifests(from, to string) error {
	if err := os.MkdirAll(to, modePrivate); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		info, err := os.Stat(source)
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case err != nil:
			return err
		case info.IsDir():
			if err := copyManifests(source, target); err != nil {
				return err
			}
		case strict.IsFile(entry.Name()):
			content, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			if err := os.WriteFile(target, content, modeSecret); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundleDir returns the directory on the node of the bundle that settings name.
func (f kubeadmFlags) bundleDir(settings kubeadm.Settings) string {
	if below, in := strings.CutPrefix(settings.Bundle, kubeadm.DefaultDir+"/"); in {
		return filepath.Join(f.dir, below)
	}
	return settings.Bundle
}

// writeIdentity writes the kubeconfig if the CA is on this node. It reports whether a kubeconfig exists
// afterwards.
func (p program) writeIdentity(f kubeadmFlags, own kubeadmFiles, server string, settings kubeadm.Settings) (bool, error) {
	cert, err := os.ReadFile(f.pki("ca.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(p.Stdout, "not yet %s: kubeadm has made no CA on this node\n", f.kubeconfig())
		return false, nil
	}
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(f.pki("ca.key"))
	if errors.Is(err, fs.ErrNotExist) {
		return p.identityElsewhere(f, server, settings)
	}
	if err != nil {
		return false, err
	}
	authority, err := kubeadm.ParseAuthority(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", f.pki("ca.crt"), f.pki("ca.key"), err)
	}
	content, until, err := authority.Kubeconfig(f.nodeID, server, p.Now())
	if err != nil {
		return false, err
	}
	if err := p.saveKubeconfig(own, content); err != nil {
		return false, err
	}
	if err := own.write(kubeadm.KubeconfigFile, content, modeSecret); err != nil {
		return false, err
	}
	fmt.Fprintf(p.Stdout, "wrote %s: user %s at %s, valid until %s\n", f.kubeconfig(), kubeadm.User(f.nodeID), server, until.UTC().Format(time.DateOnly))
	if settings.ServesHTTPS() {
		return true, p.writeServing(f, own, authority, cert)
	}
	return true, nil
}

// identityElsewhere is for a node without the key of the CA.
func (p program) identityElsewhere(f kubeadmFlags, server string, settings kubeadm.Settings) (bool, error) {
	if _, err := os.Stat(f.kubeconfig()); err == nil {
		fmt.Fprintf(p.Stdout, "kept %s: the key of the CA is not on this node, so it cannot be renewed here\n", f.kubeconfig())
		if settings.ServesHTTPS() {
			return true, f.servingElsewhere()
		}
		return true, nil
	}
	return false, fmt.Errorf("%s is missing: make %s where the key is, with kubeadm kubeconfig user --client-name %s --org %s, and set its server to %s",
		f.pki("ca.key"), f.kubeconfig(), kubeadm.User(f.nodeID), kubeadm.Group, server)
}

// nextSteps are the inputs of the printed commands.
type nextSteps struct {
	server   string
	identity bool
	settings kubeadm.Settings
}

// printNext prints the next commands to type. All of it can be pasted.
func (p program) printNext(f kubeadmFlags, pod kubeadm.Pod, n nextSteps) {
	patches := "--patches " + filepath.Join(f.dir, kubeadm.PatchesDir)
	apply := fmt.Sprintf("kubectl --kubeconfig %s --server %s apply -k %s", f.admin(), n.server, filepath.Join(f.dir, kubeadm.ClusterDir))
	var own []string // before the rights are given
	if !n.identity {
		own = append(own, f.again()+"    # again, for the kubeconfig")
	}
	last := f.lastCommands(n.settings)
	switch {
	case pod.Endpoint() == "" && len(pod.Spec.Containers) == 0:
		first := []string{"kubeadm init " + patches + "    # with your other flags"}
		p.printBlock("type next, on the first node:", first, own, []string{apply + "    # the rights, once for the cluster"}, last)
		p.printBlock("on every other node:", f.elsewhere().joins(n.settings, patches))
	case n.settings.AppliedTo(pod):
		p.printBlock("type next:", own, []string{apply + "    # once for the cluster"}, last)
	default:
		upgrade := []string{kubeadm.ApplyCommand(f.dir) + "    # the same Kubernetes; for another one see docs/kubeadm.md, Upgrade"}
		if pod.Sidecar() != nil { // type it on all nodes at once: one serves less at any moment
			turn := "sidecar turn -- " + upgrade[0] + "; a cluster of one node needs no turn"
			upgrade = []string{". " + filepath.Join(f.dir, kubeadm.EnvFile)}
			if release := n.settings.GoesBack(pod); release != "" {
				upgrade = append(upgrade, "sidecar rollback begin --to "+release+"    # once for the cluster, before the first node")
			}
			upgrade = append(upgrade, turn)
		}
		p.printBlock("type next:", own, []string{apply + "    # once for the cluster, before the first node"}, upgrade, last)
	}
}

// joins are the commands by which another node joins. Flags of this node alone are not among
// them.
func (f kubeadmFlags) joins(s kubeadm.Settings, patches string) []string {
	dir := f.bundle
	if dir == "" {
		dir = filepath.Join(f.dir, kubeadm.BundlesDir, path.Base(s.Bundle))
	}
	if s.Bundle == bundle.BuiltinName {
		dir = s.Bundle
	}
	first := f.again() + " --image=" + s.Image + " --bundle=" + dir
	if args := s.FirstArgs(); len(args) > 0 { // from calls before, too: all nodes have the same
		quoted := []string{" --"}
		for _, arg := range args {
			quoted = append(quoted, shell.Quote(arg))
		}
		first += strings.Join(quoted, " ")
	}
	return append([]string{
		first + "    # writes the patches; copy the bundle there before",
		"kubeadm join --control-plane " + patches + "    # with the flags that kubeadm init prints",
		f.again() + "    # again, for the kubeconfig",
	}, f.lastCommands(s)...)
}

// lastCommands are the last commands on a node. wait-ready needs the file of variables if the sidecar serves HTTPS.
func (f kubeadmFlags) lastCommands(s kubeadm.Settings) []string {
	out := []string{f.again() + " --check", "sidecar wait-ready --timeout 5m"}
	if s.ServesHTTPS() {
		out = slices.Insert(out, 1, ". "+filepath.Join(f.dir, kubeadm.EnvFile))
	}
	return out
}

func (p program) printBlock(title string, lines ...[]string) {
	fmt.Fprintln(p.Stdout, "\n"+title)
	for _, line := range slices.Concat(lines...) {
		fmt.Fprintln(p.Stdout, "  "+line)
	}
}
