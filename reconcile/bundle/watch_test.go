package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	watchHeader = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: t}\nrelease: 1.0.0\n"
	watchObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {x: "
)

// mounted returns a directory like that of a mounted ConfigMap: visible names are
// links to a link, which swap replaces.
func mounted(t *testing.T) (dir string, swap func(version, x string)) {
	t.Helper()
	dir = t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made := time.Now()
	return dir, func(version, x string) {
		t.Helper()
		data := filepath.Join(dir, ".."+version)
		must(os.Mkdir(data, 0o700))
		for name, text := range map[string]string{"bundle.yaml": watchHeader, "a.yaml": watchObject + x + "}\n"} {
			must(os.WriteFile(filepath.Join(data, name), []byte(text), 0o600))
			must(os.Chtimes(filepath.Join(data, name), made, made)) // only the link differs
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !errors.Is(err, os.ErrExist) {
				must(err)
			}
		}
		must(os.Symlink(filepath.Base(data), filepath.Join(dir, "..new")))
		must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
}

func TestWatch(t *testing.T) {
	dir, swap := mounted(t)
	swap("v1", "one")
	type loaded struct {
		b   *Bundle
		err error
	}
	seen := make(chan loaded, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, dir, 5*time.Millisecond, func(b *Bundle, err error) {
			select {
			case seen <- loaded{b, err}:
			case <-ctx.Done():
			}
		})
	}()
	next := func(what string) loaded {
		t.Helper()
		select {
		case l := <-seen:
			return l
		case <-time.After(time.Minute):
			t.Fatalf("%s was not noticed", what)
			return loaded{}
		}
	}

	before, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := next("the bundle at the beginning"); got.err != nil || got.b.Digest != before.Digest {
		t.Errorf("got %+v, want what Load returns", got)
	}
	swap("v2", "two")
	if got := next("a swapped link"); got.err != nil || got.b.Digest == before.Digest {
		t.Errorf("got %+v, want another digest", got)
	}
	swap("v3", "[")
	if got := next("a broken manifest"); got.err == nil {
		t.Error("got no error of a broken manifest")
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	swap("v4", "one")
	for got := next("a valid bundle"); got.err != nil || got.b.Digest != before.Digest; got = next("a valid bundle") {
		t.Log("on the way:", got.err)
	}
	if err := os.WriteFile(filepath.Join(sub, "b.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got := next("a file in a subdirectory"); got.err != nil || len(got.b.Objects) != 2; got = next("a file in a subdirectory") {
		t.Log("on the way:", got.err)
	}
	if err := os.RemoveAll(sub); err != nil {
		t.Fatal(err)
	}
	for got := next("a removed subdirectory"); got.err != nil || got.b.Digest != before.Digest; got = next("a removed subdirectory") {
		t.Log("on the way:", got.err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
