package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/smalldisk"
)

// The archive goes to the standard output, and the list elsewhere.
func TestSupport(t *testing.T) {
	server := etcdtest.New(t)
	if _, err := server.Client(t).Put(t.Context(), "/lockstep/cluster/tokens/abc", "the hash of a secret"); err != nil {
		t.Fatal(err)
	}
	args := []string{"support", "-o", "-", "--server=http://127.0.0.1:1", "--etcd-servers=" + server.Endpoints()[0]}
	code, out, errs := call(t, program{}, args...)
	if code != console.ExitOK || !strings.Contains(errs, "\nstatus.json ") || !strings.Contains(errs, "MISSING") || !strings.Contains(errs, " written to -: ") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	in, err := gzip.NewReader(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil || !bytes.Contains(content, []byte(`"key": "/lockstep/cluster/tokens/abc"`)) || bytes.Contains(content, []byte("dGhlIGhhc2g")) {
		t.Errorf("got %v and\n%s", err, content)
	}
	for want, args := range map[string][]string{
		"--data-dir": {"--etcd-servers=http://a:1", "--data-dir=/b"}, "--server": {"--server=a"}, "unexpected argument": {"now"},
		"--client-certificate and --client-key": {"--client-key=a"},
	} {
		if code, _, errs := call(t, program{}, append([]string{"support"}, args...)...); code != console.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// While etcd does not answer, the history is what the sidecar remembers, also the one that people read.
func TestSupport_remembered(t *testing.T) {
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, map[string]string{
			"/history": `[{"time":"2026-01-01T14:02:00Z","until":"2026-01-01T14:02:20Z","kind":"gate","node":"cp-2","reason":"Cordoned",` +
				`"message":"work (20 times, 1s in all)","count":20,"spans":[{"time":"2026-01-01T14:02:19Z","until":"2026-01-01T14:02:20Z"}]},` +
				`{"time":"2026-01-01T14:02:01Z","until":null,"kind":"etcd","node":"cp-1","reason":"Unreachable","message":"no answer","count":1,"spans":[]}]`,
			"/status": `{"fleet":{"nodes":[{"id":"cp-3"}]}}`,
		}[r.URL.Path])
	}))
	t.Cleanup(sidecar.Close)
	code, out, errs := call(t, program{}, "support", "-o", "-", "--server="+sidecar.URL, "--etcd-servers=http://127.0.0.1:1")
	if code != console.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	in, err := gzip.NewReader(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := "no sidecar left one in /var/lib/lockstep"; !strings.Contains(errs, want) {
		t.Errorf("want %q:\n%s", want, errs)
	}
	for _, want := range []string{
		"etcd was not read (", "): this is what the sidecar remembers\n", "cp-3    █",
		"2026-01-01T14:02:00Z  > 1s     gate  cp-2  Cordoned     work (20 times, 1s in all)\n",
		"2026-01-01T14:02:01Z  goes on  etcd  cp-1  Unreachable  no answer\n",
	} {
		if !bytes.Contains(content, []byte(want)) {
			t.Errorf("the archive has no %q:\n%s", want, errs)
		}
	}
}

// A file that exists is kept, unless people say that it may go.
func TestSupport_exists(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "support.tar.gz"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("of yesterday"), 0o600), os.Symlink(file, other)); err != nil {
		t.Fatal(err)
	}
	args := []string{"support", "--server=http://127.0.0.1:1", "--etcd-servers=" + etcdtest.New(t).Endpoints()[0], "-o"}
	for path, want := range map[string]string{file: "exists: name another file with -o, or add --force", other: "exists, and is not a regular file"} {
		if code, out, errs := call(t, program{}, append(args, path)...); code != console.ExitFailed || out != "" || !strings.Contains(errs, path+" "+want) {
			t.Errorf("got %d, %q and %q", code, out, errs)
		}
	}
	if code, _, errs := call(t, program{}, append(args, other, "--force")...); code != console.ExitFailed || !strings.Contains(errs, "is not a regular file") {
		t.Errorf("got %d and %q", code, errs)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "of yesterday" {
		t.Errorf("got %q and %v", text, err)
	}
	if code, _, errs := call(t, program{}, append(args, file, "--force")...); code != console.ExitOK {
		t.Errorf("got %d and %q", code, errs)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) == "of yesterday" {
		t.Errorf("with --force, the file is the old one: %v", err)
	}
}

// Where no space is left, the command says where to write instead, and leaves no half file.
func TestSupport_fullDisk(t *testing.T) {
	if !smalldisk.Enter(t) {
		return
	}
	dir := smalldisk.Mount(t, 1<<20)
	smalldisk.Fill(t, dir)
	file := filepath.Join(dir, "support.tar.gz")
	code, out, errs := call(t, program{}, "support", "-o", file, "--server=http://127.0.0.1:1", "--etcd-servers="+etcdtest.New(t).Endpoints()[0])
	if code != console.ExitFailed || !strings.Contains(errs, "no space left on device; name a file on another disk with -o") || !strings.Contains(out, "\nversion.json ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if left, err := filepath.Glob(file + "*"); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing", left, err)
	}
}
