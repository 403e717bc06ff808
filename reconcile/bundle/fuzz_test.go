package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// addSeeds adds inputs that were of interest; testdata/fuzz has more.
func addSeeds(add func(text string)) {
	for _, seed := range []string{
		goodObject, goodObject + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n", laughs(), "a: [\n", "{\"a\":1}", "- - - x",
		"a: &x [*x]\n", "\xff", "---\n---\n", "a: !!float 1\nb: 0x1p4\n", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":-0.0,"y":1e20,"z":[null,1.0,"\ud83d\ude00"]}}`,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: *b}\n",
	} {
		add(seed)
	}
}

// FuzzLoad searches for files with which the loader panics, uses too much memory,
// or reports a problem without a place, and for bundles that load differently the
// second time, or in another order or form.
func FuzzLoad(f *testing.F) {
	addSeeds(func(seed string) { f.Add(goodHeader, seed, seed) })
	f.Fuzz(func(t *testing.T, header, yaml, json string) {
		files := fstest.MapFS{headerFile: {Data: []byte(header)}, "x.yaml": {Data: []byte(yaml)}, "y.json": {Data: []byte(json)}}
		var first *Bundle
		var err error
		used := allocated(func() { first, err = loaderOf(files, path.Base).load() })
		if limit := uint64(64<<20 + 4096*(len(header)+len(yaml)+len(json))); used > limit {
			t.Errorf("got %d bytes allocated, want at most %d", used, limit)
		}
		wantReadable(t, err)
		second, again := loaderOf(files, path.Base).load()
		if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("got %v, then %v", err, again)
		}
		if err != nil {
			return
		}
		if first.Digest != second.Digest {
			t.Fatal("got two digests")
		}
		wantDigestKept(t, first, header)
	})
}

// wantDigestKept writes the bundle again, in another order and form, and fails if
// that changes the digest.
func wantDigestKept(t *testing.T, b *Bundle, header string) {
	t.Helper()
	files := fstest.MapFS{headerFile: {Data: []byte(header)}}
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for i, obj := range slices.Backward(b.Objects) {
		if i%2 == 0 {
			items = append(items, obj.Object)
			continue
		}
		files[fmt.Sprintf("%d/x.json", len(b.Objects)-i)] = &fstest.MapFile{Data: mustJSON(t, obj.Object, "\t")}
	}
	list["items"] = items
	files["list.json"] = &fstest.MapFile{Data: mustJSON(t, list, "")}
	again, err := loaderOf(files, path.Base).load()
	if err != nil {
		t.Fatalf("written again, it does not load: %v", err)
	}
	if again.Digest != b.Digest {
		t.Fatalf("written again, it has another digest:\n%s\n%s", objectsOf(t, b), objectsOf(t, again))
	}
}

func mustJSON(t *testing.T, v any, indent string) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", indent)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func objectsOf(t *testing.T, b *Bundle) []byte {
	t.Helper()
	return mustJSON(t, b.Objects, "")
}

// FuzzDigest searches for two contents with one digest, and for one content with
// two digests.
func FuzzDigest(f *testing.F) {
	var seeds []string
	addSeeds(func(seed string) { seeds = append(seeds, seed) })
	for i, seed := range seeds {
		f.Add(seed, seeds[(i+1)%len(seeds)], uint16(i))
		f.Add(seed, seed, uint16(i))
	}
	f.Fuzz(func(t *testing.T, a, b string, pick uint16) {
		first, err := loadFile("x.yaml", a)
		if err != nil {
			return
		}
		wantDigestKept(t, first, goodHeader)
		if second, err := loadFile("y.yml", b); err == nil {
			if same := sameObjects(t, first, second); (first.Digest == second.Digest) != same {
				t.Errorf("same digest: %t, same objects: %t\n%s\n%s", !same, same, objectsOf(t, first), objectsOf(t, second))
			}
		}
		changed := *first
		changed.Objects = make([]*unstructured.Unstructured, len(first.Objects))
		for i, obj := range first.Objects {
			changed.Objects[i] = obj.DeepCopy()
		}
		at := int(pick) % len(changed.Objects)
		n := int(pick)
		if changeOne(changed.Objects[at].Object, &n); n >= 0 {
			changed.Objects[at].Object["added"] = true
		}
		if err := changed.digest(); err != nil {
			t.Fatal(err)
		}
		if changed.Digest == first.Digest {
			t.Errorf("the digest does not show a change:\n%s\n%s", objectsOf(t, first), objectsOf(t, &changed))
		}
	})
}

// sameObjects compares objects as JSON, without HashOf.
func sameObjects(t *testing.T, a, b *Bundle) bool {
	t.Helper()
	decode := func(bundle *Bundle) (out []any) {
		d := json.NewDecoder(bytes.NewReader(objectsOf(t, bundle)))
		d.UseNumber()
		if err := d.Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

// changeOne changes the value that n counts down to, in a fixed order, or adds a
// value to a mapping. n is below 0 afterwards if there were enough values.
func changeOne(v any, n *int) any {
	if m, ok := v.(map[string]any); ok {
		return changeMember(m, n)
	}
	if *n--; *n >= 0 {
		return v
	}
	switch x := v.(type) {
	case string:
		return x + "x"
	case bool:
		return !x
	case int64:
		return x ^ 1
	case []any:
		return append(x, nil)
	}
	return "changed"
}

func changeMember(m map[string]any, n *int) any {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if m[name] = changeOne(m[name], n); *n < 0 {
			return m
		}
	}
	if *n--; *n < 0 {
		m["added"] = true
	}
	return m
}
