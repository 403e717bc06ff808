package upgrade

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

//go:embed bundles
var bundleFiles embed.FS

// bundles are the bundles of the walk, on disk for the sidecars and in memory
// for the claims.
type bundles struct {
	dir     string
	objects map[string]map[string]*unstructured.Unstructured // by release, by ref
	minimum map[string]string                                // by release: its minReconcilerRelease
}

// writeBundles writes all bundles below dir.
func writeBundles(dir string) (bundles, error) {
	b := bundles{
		dir:     dir,
		objects: map[string]map[string]*unstructured.Unstructured{},
		minimum: map[string]string{},
	}
	root, err := fs.Sub(bundleFiles, "bundles")
	if err != nil {
		return bundles{}, err
	}
	if err := os.CopyFS(dir, root); err != nil {
		return bundles{}, fmt.Errorf("write bundles: %w", err)
	}
	files, err := fs.Glob(root, "*/*.yaml")
	if err != nil {
		return bundles{}, err
	}
	for _, file := range files {
		if err := b.read(root, file); err != nil {
			return bundles{}, fmt.Errorf("read bundles: %s: %w", file, err)
		}
	}
	return b, nil
}

func (b bundles) read(root fs.FS, file string) error {
	release := path.Dir(file)
	if b.objects[release] == nil {
		b.objects[release] = map[string]*unstructured.Unstructured{}
	}
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return err
	}
	if text, err = yaml.YAMLToJSONStrict(text); err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &obj.Object); err != nil {
		return err
	}
	if path.Base(file) == "bundle.yaml" {
		b.minimum[release], _, err = unstructured.NestedString(obj.Object, "minReconcilerRelease")
		return err
	}
	b.objects[release][ref(obj)] = obj
	return nil
}

// path is the directory of a release's bundle.
func (b bundles) path(release string) string { return filepath.Join(b.dir, release) }

// releases returns all releases, the oldest first.
func (b bundles) releases() []string {
	// As strings: the walk uses no number above nine.
	return slices.Sorted(maps.Keys(b.objects))
}

// all returns every object of all bundles, in its first form and in order.
func (b bundles) all() []*unstructured.Unstructured {
	first := map[string]*unstructured.Unstructured{}
	for _, release := range b.releases() {
		for name, obj := range b.objects[release] {
			if first[name] == nil {
				first[name] = obj
			}
		}
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(first)) {
		out = append(out, first[name])
	}
	return out
}

// have reports whether any of the bundles contains the object.
func (b bundles) have(name string) bool {
	for _, objects := range b.objects {
		if objects[name] != nil {
			return true
		}
	}
	return false
}

// forms returns the forms of an object in bundle after bundle, as the walk takes them: up to
// the newest, and then back. A form is named by the first release that contains it.
func (b bundles) forms(name string) []string {
	var out []string
	var last *unstructured.Unstructured
	for _, release := range append(b.releases(), wayBack) {
		obj := b.objects[release][name]
		switch {
		case obj == nil && last != nil:
			out = append(out, formDeleted)
		case obj != nil && (last == nil || !reflect.DeepEqual(obj, last)):
			out = append(out, b.firstWith(name, obj))
		}
		last = obj
	}
	return out
}

// firstWith returns the first release that contains an object in this form.
func (b bundles) firstWith(name string, obj *unstructured.Unstructured) string {
	all := b.releases()
	return all[slices.IndexFunc(all, func(release string) bool { return reflect.DeepEqual(b.objects[release][name], obj) })]
}

// formOf returns the name of a live object's form.
func (b bundles) formOf(live *unstructured.Unstructured) string {
	for _, form := range b.forms(ref(live)) {
		want := b.objects[form][ref(live)]
		if want != nil && covers(live.Object, want.Object, "") == nil {
			return form
		}
	}
	return formForeign
}
