package kubeadmnode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
)

// kubeadmFiles are the files that sidecar kubeadm writes on a node. It remembers the digest of each in
// kubeadm.SumsFile. So without --force it never overwrites a file that it did not write, or that was changed
// since.
type kubeadmFiles struct {
	dir   string
	force bool
	sums  map[string]string // by path below dir
}

func openFiles(dir string, force bool) (kubeadmFiles, error) {
	out := kubeadmFiles{dir: dir, force: force, sums: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(dir, kubeadm.SumsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	for line := range strings.Lines(string(text)) {
		if digest, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "  "); ok {
			out.sums[name] = digest
		}
	}
	return out, nil
}

func sumOf(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// changed explains why a file must not get new content; empty: it may.
func (k kubeadmFiles) changed(name string, content []byte) (why string, err error) {
	now, err := os.ReadFile(filepath.Join(k.dir, name))
	digest, known := k.sums[name]
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && bytes.Equal(now, content):
		return "", nil
	case err != nil:
		return "", err
	case !known:
		return "sidecar kubeadm did not write it", nil
	case digest != sumOf(now):
		return "it was changed since sidecar kubeadm wrote it", nil
	}
	return "", nil
}

// write writes a file, and notes its digest.
func (k kubeadmFiles) write(name string, content []byte, mode fs.FileMode) error {
	file := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), modeDir); err != nil {
		return err
	}
	if err := durable.WriteFile(file, content, mode); err != nil {
		return err
	}
	k.sums[name] = sumOf(content)
	var out bytes.Buffer
	for _, one := range slices.Sorted(maps.Keys(k.sums)) {
		fmt.Fprintf(&out, "%s  %s\n", k.sums[one], one)
	}
	return durable.WriteFile(filepath.Join(k.dir, kubeadm.SumsFile), out.Bytes(), modeFile)
}

// refuse is an error if this call wants other patches than the node's, and may not write them. Nothing is written
// then: kubeadm would next start another configuration than this call asked for.
func (k kubeadmFiles) refuse(files map[string][]byte, f kubeadmFlags) error {
	if k.force || f.image == "" && f.bundle == "" && len(f.args) == 0 {
		return nil
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, kubeadm.PatchesDir+"/") {
			continue
		}
		why, err := k.changed(name, files[name])
		if err != nil {
			return err
		}
		if why != "" {
			problems = append(problems, fmt.Errorf("%s: %s: add --force to overwrite it. Changes of your own belong into a file beside it, like kube-apiserver2+strategic.yaml; nothing was written",
				filepath.Join(k.dir, name), why))
		}
	}
	return errors.Join(problems...)
}

// contents are the files that kubeadm and kubectl read, and what they follow from.
type contents struct {
	settings kubeadm.Settings
	files    map[string][]byte // by path below the directory of Lockstep
	rights   rights.Rights     // for the bundle
}

// writeFiles writes the files, and names each one that it leaves alone.
func (p program) writeFiles(f kubeadmFlags, k kubeadmFiles, w contents) error {
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		why, err := k.changed(name, w.files[name])
		if err != nil {
			return err
		}
		if why != "" && !k.force {
			kept = append(kept, name)
			fmt.Fprintf(p.Stdout, "left alone %s: %s; --force overwrites it\n", filepath.Join(k.dir, name), why)
			continue
		}
		if err := k.write(name, w.files[name], modeFile); err != nil {
			return err
		}
	}
	return p.reportWritten(f, w, kept)
}

// saveKubeconfig copies a kubeconfig that sidecar kubeadm did not write, or that was changed since, to a file
// with the suffix .old beside it.
func (p program) saveKubeconfig(k kubeadmFiles, content []byte) error {
	name := kubeadm.KubeconfigFile
	why, err := k.changed(name, content)
	if err != nil || why == "" {
		return err
	}
	file := filepath.Join(k.dir, name)
	now, err := os.ReadFile(file)
	if err != nil {
		return strict.Reason(err)
	}
	if err := durable.WriteFile(file+".old", now, modeSecret); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "kept the kubeconfig as %s.old: %s\n", file, why)
	return nil
}
