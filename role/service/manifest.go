package service

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/strict"
)

// manifest reads the manifest of a static pod. A relative path begins at the services directory.
func (r *reader) manifest(f fields, name string) []byte {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f.add("manifest", "%q is not a file", path)
		return nil
	}
	if problem := r.trusted(path); problem != "" {
		f.add("manifest", "%q %s", path, problem)
		return nil
	}
	data, err := strict.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		f.add("manifest", "%q: %v", path, strict.Reason(err))
		return nil
	}
	before := r.problems.Count()
	documents := strict.Read(path, data, &r.problems)
	switch {
	case r.problems.Count() > before:
	case len(documents) != 1:
		r.problems.Add(strict.Place{File: path}, "has %d documents, want one Pod", len(documents))
	default:
		r.pod(documents[0])
	}
	return data
}

// pod checks the fields without which a kubelet does not run a pod from a file. The kubelet checks
// the rest, and only logs problems.
func (r *reader) pod(d strict.Document) {
	root := d.Root
	if root.Kind != strict.Mapping {
		r.problems.Add(d.At, "must be a mapping")
		return
	}
	at := func(field string) strict.Place {
		if n := root.Get(field); n != nil {
			return d.At.At(n.Line)
		}
		return d.At
	}
	if got, _ := root.Get("apiVersion").Text(); got != "v1" {
		r.problems.Add(at("apiVersion"), "apiVersion must be v1")
	}
	if got, _ := root.Get("kind").Text(); got != "Pod" {
		r.problems.Add(at("kind"), "kind must be Pod")
	}
	switch metadata := root.Get("metadata"); {
	case metadata == nil:
		r.problems.Add(d.At, "metadata is missing; it needs a name")
	case metadata.Kind != strict.Mapping:
		r.problems.Add(at("metadata"), "metadata must be a mapping")
	default:
		name := metadata.Get("name")
		if text, _ := name.Text(); text == "" {
			r.problems.Add(d.At.At(cmp.Or(name, metadata).Line), "metadata.name must be a string that is not empty")
		}
	}
	if spec := root.Get("spec"); spec == nil || spec.Kind != strict.Mapping || spec.Get("containers") == nil {
		r.problems.Add(at("spec"), "spec.containers is missing")
	}
}
