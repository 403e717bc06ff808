package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bundleSpec describes a bundle to write.
type bundleSpec struct {
	name          string // of the bundle; each case uses its own
	release       string
	minReconciler string // empty: no constraint
	minAPIServer  string // empty: no constraint
	objects       []string
}

// writeBundle writes a bundle and returns its directory.
func (b *bench) writeBundle(s bundleSpec) (string, error) {
	dir := filepath.Join(b.dir, "bundles", s.name+"-"+s.release)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	header := fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: %s}\nrelease: %s\n", s.name, s.release)
	if s.minReconciler != "" {
		header += "minReconcilerRelease: " + s.minReconciler + "\n"
	}
	if s.minAPIServer != "" {
		header += "minApiserverRelease: " + s.minAPIServer + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "bundle.yaml"), []byte(header), 0o600); err != nil {
		return "", err
	}
	name := objectsFile
	for objects := range slices.Chunk(s.objects, 1000) { // ten thousand are too many for one file
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(objects, "---\n")), 0o600); err != nil {
			return "", err
		}
		name = "more-" + name
	}
	return dir, nil
}

// objectsFile contains the first objects of a bundle, up to 1,000.
const objectsFile = "objects.yaml"

// configMap is a small object.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {value: %q}\n", name, value)
}

// few returns five small objects.
func few(prefix, value string) []string {
	var out []string
	for i := range 5 {
		out = append(out, configMap(fmt.Sprintf("%s-%d", prefix, i), value))
	}
	return out
}

// thousand returns 1,000 objects: 400 cluster roles of five rules, 400
// bindings, 100 priority classes, 50 storage classes, 50 config maps.
func thousand(prefix string) []string { return mix(prefix, 1000) }

// mix returns n objects of the same kinds and proportions as thousand; n is a
// multiple of 20. The last one is a config map.
func mix(prefix string, n int) []string {
	const rule = "\n  - {apiGroups: [apps], resources: [deployments, statefulsets], verbs: [get, list, watch, patch]}"
	var out []string
	for i := range n * 2 / 5 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		out = append(out,
			fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules:%s\n", name, strings.Repeat(rule, 5)),
			fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %s}\n"+
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\n"+
				"subjects: [{kind: ServiceAccount, name: s, namespace: default}]\n", name, name))
	}
	for i := range n / 10 {
		out = append(out, fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s-%d}\nvalue: %d\n", prefix, i, i))
	}
	for i := range n / 20 {
		out = append(out,
			fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: %s-%d}\nprovisioner: x.test\nparameters: {type: fast}\n", prefix, i),
			configMap(fmt.Sprintf("%s-%d", prefix, i), "one"))
	}
	return out
}

// lastChanged returns the objects of mix, with another value in the last one.
func lastChanged(prefix string, objects []string) []string {
	last := configMap(fmt.Sprintf("%s-%d", prefix, len(objects)/20-1), "two")
	return append(slices.Clone(objects[:len(objects)-1]), last)
}
