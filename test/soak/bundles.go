package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// release is a bundle's release and constraints. Each can be rolled out over the
// one before it (docs/protocol.md#releases-that-can-roll). Together they contain
// every kind of step: A raised, M raised, and neither.
type release struct {
	name, m, a string
}

var releases = []release{
	{name: "1.0.0", m: "1.0.0", a: "1.0.0"},
	{name: "1.1.0", m: "1.0.0", a: "1.0.0"},
	{name: "1.2.0", m: "1.1.0", a: "1.2.0"}, // waits for all nodes
	{name: "1.3.0", m: "1.3.0", a: "1.2.0"}, // is not ready before it reconciled
	{name: "1.4.0", m: "1.2.0", a: "1.4.0"}, // waits for all nodes
}

func newest() int { return len(releases) - 1 }

// kept is an object of the bundles: the name of its form in each release, empty
// where the release does not contain it, and a function that renders the form.
type kept struct {
	kind, namespace, name string
	forms                 [5]string
	render                func(form string) map[string]any
	// second is the form in the second build of each release; nil: the same.
	second *[5]string
}

// builds is the number of bundles of each release. Sidecars load one of them, and the
// other one when the directory is replaced.
const builds = 2

// in is the form of an object in a build of a release.
func (k kept) in(index, build int) string {
	if build == 1 && k.second != nil {
		return k.second[index]
	}
	return k.forms[index]
}

const namespace = "platform"

var keptObjects = []kept{
	{"Namespace", "", namespace, [5]string{"a", "a", "a", "a", "a"}, labelled("v1"), nil},
	{"ConfigMap", namespace, "constant", [5]string{"a", "a", "a", "a", "a"}, configMap, nil},
	{"ConfigMap", namespace, "settings", [5]string{"a", "b", "c", "d", "e"}, configMap, nil},
	{"ConfigMap", namespace, "slow", [5]string{"a", "a", "b", "b", "c"}, configMap, nil},
	{"ConfigMap", namespace, "back-again", [5]string{"a", "b", "a", "b", "a"}, configMap, nil},
	{"ConfigMap", namespace, "early", [5]string{"a", "a", "", "", ""}, configMap, nil},
	{"ConfigMap", namespace, "late", [5]string{"", "", "", "a", "b"}, configMap, nil},
	{"ConfigMap", namespace, "comes-and-goes", [5]string{"", "a", "", "a", ""}, configMap, nil},
	{"ClusterRole", "", "platform:agent", [5]string{"a", "b", "b", "c", "c"}, clusterRole, nil},
	{"ClusterRoleBinding", "", "platform:agent", [5]string{"a", "a", "a", "b", "b"}, clusterRoleBinding, nil},
	{"PriorityClass", "", "platform-critical", [5]string{"1000", "1000", "2000", "2000", "3000"}, priorityClass, nil},
	{"StorageClass", "", "platform-local", [5]string{"", "a", "a", "b", "c"}, storageClass, nil},
	{"CSIDriver", "", "csi.platform", [5]string{"", "a", "a", "", ""}, csiDriver, nil}, // of a kind that no later release contains
	{"RuntimeClass", "", "platform-sandbox", [5]string{"a", "a", "b", "", "a"}, runtimeClass, nil},
	{"ConfigMap", namespace, "rebuilt", [5]string{"a", "b", "c", "d", "e"}, configMap, &[5]string{"a2", "b2", "c2", "d2", "e2"}},
	{"ConfigMap", namespace, "first-build", [5]string{"a", "a", "a", "b", "b"}, configMap, &[5]string{}},
	{"CustomResourceDefinition", "", "widgets." + widgetGroup, [5]string{"a", "a", "b", "b", "b"}, definition, nil},
	{"Widget", "", "platform", [5]string{"a", "b", "b", "c", "d"}, widget, nil},
}

// widgetGroup is the group of the kind that the bundles define.
const widgetGroup = "soak.lockstep.dev"

// definition defines the kind Widget. Its form is a label: kube-apiserver stores a CRD
// in another version than the one in which clients write it.
func definition(form string) map[string]any {
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}},
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "metadata": map[string]any{"labels": map[string]any{"form": form}},
		"spec": map[string]any{
			"group": widgetGroup, "scope": "Cluster", "versions": []any{version},
			"names": map[string]any{"kind": "Widget", "plural": "widgets"},
		},
	}
}

func widget(form string) map[string]any {
	return map[string]any{"apiVersion": widgetGroup + "/v1", "spec": map[string]any{"form": form}}
}

func labelled(apiVersion string) func(string) map[string]any {
	return func(form string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "metadata": map[string]any{"labels": map[string]any{"form": form}}}
	}
}

func configMap(form string) map[string]any {
	return map[string]any{"apiVersion": "v1", "data": map[string]any{"form": form, "same": "in all"}}
}

func clusterRole(form string) map[string]any {
	rule := map[string]any{
		"apiGroups": []any{""}, "resources": []any{"nodes"}, "resourceNames": []any{form}, "verbs": []any{"get"},
	}
	return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "rules": []any{rule}}
}

// clusterRoleBinding changes its roleRef, which is immutable.
func clusterRoleBinding(form string) map[string]any {
	return map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"roleRef":    map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "platform:" + form},
		"subjects":   []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "agents"}},
	}
}

// priorityClass changes its value, which is immutable.
func priorityClass(form string) map[string]any {
	var value int64
	if _, err := fmt.Sscan(form, &value); err != nil {
		panic(err)
	}
	return map[string]any{"apiVersion": "scheduling.k8s.io/v1", "value": value, "description": "form " + form}
}

// storageClass changes its parameters, which are immutable.
func storageClass(form string) map[string]any {
	return map[string]any{
		"apiVersion": "storage.k8s.io/v1", "provisioner": "kubernetes.io/no-provisioner",
		"volumeBindingMode": "WaitForFirstConsumer", "parameters": map[string]any{"form": form},
	}
}

func csiDriver(string) map[string]any {
	return map[string]any{"apiVersion": "storage.k8s.io/v1", "spec": map[string]any{"attachRequired": false, "podInfoOnMount": true}}
}

// runtimeClass changes its handler, which is immutable.
func runtimeClass(form string) map[string]any {
	return map[string]any{"apiVersion": "node.k8s.io/v1", "handler": "sandbox-" + form}
}

// object is the manifest of a form.
func (k kept) object(form string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: k.render(form)}
	obj.SetKind(k.kind)
	obj.SetName(k.name)
	if k.namespace != "" {
		obj.SetNamespace(k.namespace)
	}
	return obj
}

func (k kept) ref() string { return ref(k.kind, k.namespace, k.name) }

func ref(kind, ns, name string) string {
	if ns == "" {
		return kind + " " + name
	}
	return kind + " " + ns + "/" + name
}

func findKept(want string) (kept, bool) {
	for _, k := range keptObjects {
		if k.ref() == want {
			return k, true
		}
	}
	return kept{}, false
}

// formOf names the form of a live object. It is empty if no bundle contains this form.
func (k kept) formOf(live map[string]any) string {
	all := slices.Clone(k.forms[:])
	if k.second != nil {
		all = append(all, k.second[:]...)
	}
	for _, form := range slices.Compact(slices.Sorted(slices.Values(all))) {
		if form == "" {
			continue
		}
		want := k.object(form).Object
		if k.kind == "CustomResourceDefinition" {
			want = map[string]any{"metadata": want["metadata"]}
		}
		if covers(live, want) {
			return form
		}
	}
	return ""
}

// covers reports whether live contains every field of want, with its value.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range want {
			if !covers(fields[name], value) {
				return false
			}
		}
		return true
	case []any:
		items, ok := live.([]any)
		return ok && slices.EqualFunc(items, want, covers)
	}
	return reflect.DeepEqual(live, want)
}

// judged returns the bundles as values of package judge. They are read from the
// directories that writeBundles wrote.
func judged(dir string) ([]judge.Bundle, error) {
	var out []judge.Bundle
	for i, r := range releases {
		for build := range builds {
			loaded, err := bundle.Load(buildDir(dir, i, build))
			if err != nil {
				return nil, fmt.Errorf("read bundle: %w", err)
			}
			b := judge.Bundle{
				Release: mustRelease(r.name), M: mustRelease(r.m), A: mustRelease(r.a), Forms: map[string]string{},
				Digest: loaded.Digest, PruneImmediately: loaded.PruneImmediately,
			}
			for _, k := range keptObjects {
				if form := k.in(i, build); form != "" {
					b.Forms[k.ref()] = form
				}
			}
			out = append(out, b)
		}
	}
	return out, nil
}

func mustRelease(s string) protocol.Release {
	r, err := semver.ParseRelease(s)
	if err != nil {
		panic(err)
	}
	return r
}

// buildDir returns the directory of a build of a release.
func buildDir(dir string, index, build int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", releases[index].name, build))
}

// bundleDir returns the directory of the build of a release that sidecars load.
func bundleDir(dir string, index int) string { return filepath.Join(dir, releases[index].name) }

// selectBuild makes a build the one that sidecars load. It replaces the directory
// in one step, as an installer does.
func selectBuild(dir string, index, build int) error {
	fresh := bundleDir(dir, index) + ".new"
	if err := os.Symlink(buildDir(dir, index, build), fresh); err != nil {
		return fmt.Errorf("select build: %w", err)
	}
	if err := os.Rename(fresh, bundleDir(dir, index)); err != nil {
		return fmt.Errorf("select build: %w", err)
	}
	return nil
}

// writeBundles writes a directory for each build of each release below dir, and
// selects the first ones. Removals of some releases do not wait for nodes.
func writeBundles(dir string, immediately [5]bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write bundles: %w", err)
	}
	for i := range releases {
		for build := range builds {
			if err := writeBundle(buildDir(dir, i, build), i, build, immediately[i]); err != nil {
				return fmt.Errorf("write bundle %s: %w", releases[i].name, err)
			}
		}
		if err := selectBuild(dir, i, 0); err != nil {
			return err
		}
	}
	return nil
}

func writeBundle(dir string, index, build int, immediately bool) error {
	r, policy := releases[index], ""
	if immediately {
		policy = "prunePolicy: Immediately\n"
	}
	files := map[string][]byte{"bundle.yaml": fmt.Appendf(nil,
		"apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: soak}\nrelease: %s\nminReconcilerRelease: %s\nminApiserverRelease: %s\n%s",
		r.name, r.m, r.a, policy)}
	for n, k := range keptObjects {
		form := k.in(index, build)
		if form == "" {
			continue
		}
		text, err := json.Marshal(k.object(form).Object)
		if err != nil {
			return err
		}
		files[fmt.Sprintf("%02d.json", n)] = text
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// decodeWhole decodes JSON with int64 for whole numbers, like a manifest.
func decodeWhole(data []byte) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var out map[string]any
	if decoder.Decode(&out) != nil {
		return nil
	}
	return wholeNumbers(out).(map[string]any)
}

func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = wholeNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	}
	return v
}
