package service

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

// manifest reads the manifest of a static pod. A relative path begins at the services directory.
func (l *loader) manifest(f strict.Fields, name string) []byte {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f.Add("manifest", "%q is not a file", path)
		return nil
	}
	if problem := l.trusted(path); problem != "" {
		f.Add("manifest", "%q %s", path, problem)
		return nil
	}
	data, err := strict.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		f.Add("manifest", "%q: %v", path, strict.Reason(err))
		return nil
	}
	before := l.problems.Count()
	documents := strict.Read(path, data, &l.problems)
	switch {
	case l.problems.Count() > before:
	case len(documents) != 1:
		l.problems.Add(strict.Place{File: path}, "has %d documents, want one Pod", len(documents))
	default:
		l.pod(documents[0])
	}
	return data
}

// pod checks the fields without which a kubelet does not run a pod from a file. The kubelet checks
// the rest, and only logs problems.
func (l *loader) pod(d strict.Document) {
	root := d.Root
	if root.Kind != strict.Mapping {
		l.problems.Add(d.At, "must be a mapping")
		return
	}
	at := func(field string) strict.Place {
		if n := root.Get(field); n != nil {
			return d.At.At(n.Line)
		}
		return d.At
	}
	if got, _ := root.Get("apiVersion").Text(); got != "v1" {
		l.problems.Add(at("apiVersion"), "apiVersion must be v1")
	}
	if got, _ := root.Get("kind").Text(); got != "Pod" {
		l.problems.Add(at("kind"), "kind must be Pod")
	}
	switch metadata := root.Get("metadata"); {
	case metadata == nil:
		l.problems.Add(d.At, "metadata is missing; it needs a name")
	case metadata.Kind != strict.Mapping:
		l.problems.Add(at("metadata"), "metadata must be a mapping")
	default:
		name := metadata.Get("name")
		if text, _ := name.Text(); text == "" {
			l.problems.Add(d.At.At(cmp.Or(name, metadata).Line), "metadata.name must be a string that is not empty")
		}
	}
	if spec := root.Get("spec"); spec == nil || spec.Kind != strict.Mapping || spec.Get("containers") == nil {
		l.problems.Add(at("spec"), "spec.containers is missing")
	}
}
