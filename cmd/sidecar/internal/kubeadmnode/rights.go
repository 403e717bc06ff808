package kubeadmnode

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
)

// content returns the files for kubeadm and kubectl, by their paths below the
// directory of Lockstep. release is nil if this call sets none.
func (p program) content(
	ctx context.Context, f kubeadmFlags, settings kubeadm.Settings, release *bundle.Bundle,
) (out map[string][]byte, r rights.Rights, err error) {
	out = settings.Files()
	name := path.Join(kubeadm.ClusterDir, kubeadm.BundleRights)
	if release == nil {
		if release, err = bundle.Open(f.bundleDir(settings)); err != nil {
			fmt.Fprintf(p.Stdout, "left alone %s: the bundle cannot be read: %v\n", filepath.Join(f.dir, name), oneLine(err))
			return out, r, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, kubeaccess.RightsTimeout)
	defer cancel()
	resolve, _ := kubeaccess.Resolver(ctx, f.kubeconfig()) // nil: there is no kubeconfig yet
	if r, err = rights.Of(release, resolve); err != nil {  // of the API: it may not exist yet
		r, err = rights.Of(release, nil)
	}
	for _, guess := range r.Guessed {
		fmt.Fprintf(p.Stderr, "warning: %s\n", terminal.Clean(guess.Warning("Type this command again when kube-apiserver serves the kind")))
	}
	out[name] = r.YAML(kubeadm.Group)
	return out, r, err
}

// reportWritten names the directories that were written whole, and the rights that the bundle needs and that are missing
// in a file that was left alone. kept are the files that were left alone, which are named already.
func (p program) reportWritten(f kubeadmFlags, w contents, kept []string) error {
	name := path.Join(kubeadm.ClusterDir, kubeadm.BundleRights)
	whole := func(dir string) bool {
		return !slices.ContainsFunc(kept, func(name string) bool { return path.Dir(name) == dir })
	}
	if whole(kubeadm.PatchesDir) {
		fmt.Fprintf(p.Stdout, "wrote %s: for kubeadm --patches: the container of the sidecar, image %s\n", filepath.Join(f.dir, kubeadm.PatchesDir), w.settings.Image)
	}
	if whole(kubeadm.ClusterDir) && w.files[name] != nil {
		fmt.Fprintf(p.Stdout, "wrote %s: the rights of the sidecars, for Lockstep and for the bundle\n", filepath.Join(f.dir, kubeadm.ClusterDir))
	}
	if !slices.Contains(kept, name) {
		return nil
	}
	file := filepath.Join(f.dir, name)
	edited, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lacking := kubeaccess.Lacking(w.rights, edited)
	if len(lacking) == 0 {
		return nil
	}
	fmt.Fprintf(p.Stdout, "the rights in %s are not enough for the bundle; missing:\n", file)
	for _, one := range lacking {
		fmt.Fprintf(p.Stdout, "  %s\n", one)
	}
	fmt.Fprintf(p.Stdout, "add them, or write the whole file again: %s --force\n", f.again())
	return nil
}
