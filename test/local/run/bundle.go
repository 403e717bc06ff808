package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// chosen is the bundle with which the node starts.
type chosen struct {
	*bundle.Bundle
	dir string // absolute, or the name of the built-in bundle
}

func (c chosen) String() string {
	objects := fmt.Sprintf("%d objects", len(c.Objects))
	if len(c.Objects) == 1 {
		objects = "1 object"
	}
	return fmt.Sprintf("%s %s, %s: %s", c.Name, c.Version, objects, c.dir)
}

// choose loads the bundle before anything starts. dir is the value of BUNDLE; empty: the
// variable of the flag, or the built-in bundle.
func choose(dir string) (chosen, error) {
	dir = cmp.Or(dir, os.Getenv("LOCKSTEP_BUNDLE"), bundle.BuiltinName)
	b, err := bundle.Validate(dir)
	if load, ok := errors.AsType[*bundle.LoadError](err); ok {
		lines := []string{fmt.Sprintf("the bundle in %s is invalid:", dir)}
		for _, problem := range load.Problems {
			lines = append(lines, "  "+problem.Error())
		}
		return chosen{}, errors.New(strings.Join(lines, "\n"))
	}
	if err != nil {
		return chosen{}, fmt.Errorf("BUNDLE=%s: %w", dir, err)
	}
	if dir != bundle.BuiltinName {
		if dir, err = filepath.Abs(dir); err != nil {
			return chosen{}, err
		}
	}
	return chosen{Bundle: b, dir: dir}, nil
}

// objectsBundle returns the name of the bundle whose objects are in the cluster.
func (n node) objectsBundle(ctx context.Context, p *printer) string {
	status, err := n.sidecar.Status(ctx)
	if err != nil || status.Reconciler.Bundle == "" {
		return p.bundle.Name
	}
	return status.Reconciler.Bundle
}

// otherBundle says what follows if the node starts with a bundle of another name than that of the objects;
// empty: it has the same name.
func (n node) otherBundle(objects string, next chosen, p *printer) string {
	if next.Name == objects {
		return ""
	}
	command := "sidecar bundle replace --from " + objects + " --to " + next.Name
	switch {
	case n.own.settings != "":
		command = ". " + n.own.settings + " && " + command
	case n.dataDir != "":
		command = filepath.Join(p.assets, command) + " --data-dir=" + n.dataDir
	default:
		command = filepath.Join(p.assets, command) + " --etcd-servers=" + strings.Join(n.etcdServers, ",")
	}
	return fmt.Sprintf("  not started: the objects are of the bundle %s, and %s has the bundle %s, which no leader applies in its place.\n"+
		"  If %s is meant to replace %s, type the directory here again, and when this node runs it, in another terminal:\n    %s\n",
		objects, next.dir, next.Name, next.Name, objects, command)
}

// resources are the kinds of the objects, for kubectl, without Namespace: there is nothing
// here that ends the deletion of one.
func (c chosen) resources() string {
	var out []string
	for _, obj := range c.Objects {
		gvk := obj.GroupVersionKind()
		name := strings.ToLower(gvk.Kind)
		if strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io") {
			name += "." + gvk.Group
		}
		if name != "namespace" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// copyServices copies the services of a node beside its data: the user adds to them.
func copyServices(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no services: start this in the repository, by make run", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
