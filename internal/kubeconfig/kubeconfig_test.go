package kubeconfig

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// kubeconfigFile writes kubeconfigs for servers that answer nothing useful.
type kubeconfigFile struct {
	*testing.T
	path string
}

// write writes a kubeconfig with fields for the cluster and the user.
func (f kubeconfigFile) write(server, cluster, user string) {
	f.Helper()
	f.raw(fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, %s}}]
users: [{name: u, user: {%s}}]
`, server, cluster, user))
}

func (f kubeconfigFile) raw(text string) {
	f.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// turn does the work of Run after one pause.
func (k *File) turn(ctx context.Context) []string {
	k.reload()
	k.checkServer(ctx)
	k.warn()
	return k.warnings.Get()
}

func mustOpen(t *testing.T, path string) *File {
	t.Helper()
	k, err := Open(path, Local, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestFile_reload(t *testing.T) {
	tokens := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		tokens <- req.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	const insecure = "insecure-skip-tls-verify: true"
	f := kubeconfigFile{t, filepath.Join(t.TempDir(), "kubeconfig")}
	f.write(server.URL, insecure, "token: first")
	k := mustOpen(t, f.path)
	client, err := kube.New(k.transport.Config(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	for _, tt := range []struct {
		name    string
		change  func()
		token   string
		warning string // part of the only one; empty: there is none
	}{
		{"as it was read at the start", func() {}, "first", ""},
		{"another token", func() { f.write(server.URL, insecure, "token: second") }, "second", ""},
		{"half written", func() { f.raw("apiVersion: v1\nkind: Conf") }, "second", "the last valid version stays in use"},
		{"a file that is missing", func() { f.write(server.URL, insecure, "tokenFile: none") }, "second", "none: no such file"},
		{"a certificate without its key", func() {
			f.write(server.URL, insecure, "client-certificate-data: bm8=, client-key-data: bm8=")
		}, "second", "PEM"},
		{"missing", func() { _ = os.Remove(f.path) }, "second", "no such file"},
		{"valid again", func() { f.write(server.URL, insecure, "token: third") }, "third", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.change()
			warnings := k.turn(t.Context())
			if tt.warning == "" && len(warnings) > 0 ||
				tt.warning != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], tt.warning) || !strings.Contains(warnings[0], f.path)) {
				t.Errorf("got warnings %q, want %q, with the path", warnings, tt.warning)
			}
			_, _ = client.Do(t.Context(), kube.Request{Verb: http.MethodGet, Path: "/x"})
			if got := <-tokens; got != "Bearer "+tt.token {
				t.Errorf("got %q, want token %q", got, tt.token)
			}
		})
	}
	t.Run("a token file that is replaced", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		for _, token := range []string{"fourth", "fifth"} {
			if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f.write(server.URL, insecure, "tokenFile: "+file)
			k.turn(t.Context())
			_, _ = client.Do(t.Context(), kube.Request{Verb: http.MethodGet, Path: "/x"})
			if got := <-tokens; got != "Bearer "+token {
				t.Errorf("got %q, want token %q", got, token)
			}
		}
	})
}

func TestFile_warnings(t *testing.T) {
	f := kubeconfigFile{t, filepath.Join(t.TempDir(), "kubeconfig")}
	for _, tt := range []struct{ name, server, cluster, want string }{
		{"this machine", "https://127.0.0.1:6443", "", ""},
		{"another machine", "https://192.0.2.1:6443", "", "https://192.0.2.1:6443 is not an address of this machine"},
		{"a proxy", "https://127.0.0.1:6443", "proxy-url: 'http://me:secret@proxy:3128'", "through the proxy-url http://me:xxxxx@proxy:3128"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.write(tt.server, tt.cluster, "")
			got := mustOpen(t, f.path).turn(t.Context())
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("another machine since the file changed", func(t *testing.T) {
		f.write("https://192.0.2.1:6443", "", "")
		k := mustOpen(t, f.path)
		k.turn(t.Context())
		f.write("https://127.0.0.1:6443", "", "")
		if got := k.turn(t.Context()); len(got) > 0 {
			t.Errorf("got %q for the new server", got)
		}
	})
	t.Run("a name that is not resolved in time", func(t *testing.T) {
		f.write("https://name.invalid:6443", "", "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := mustOpen(t, f.path).turn(ctx); len(got) != 1 || !strings.Contains(got[0], "cannot be resolved") {
			t.Errorf("got %q", got)
		}
	})
}

// A proxy from the environment is for other servers than this node's.
func TestFile_noProxyFromEnvironment(t *testing.T) {
	f := kubeconfigFile{t, filepath.Join(t.TempDir(), "kubeconfig")}
	f.write("https://192.0.2.1:6443", "", "")
	cfg := mustOpen(t, f.path).config.Get()
	if cfg.Proxy == nil {
		t.Fatal("got no Proxy: client-go would use that of the environment")
	}
	proxy, err := cfg.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "192.0.2.1:6443"}})
	if proxy != nil || err != nil {
		t.Errorf("got %v, %v, want none", proxy, err)
	}
}
