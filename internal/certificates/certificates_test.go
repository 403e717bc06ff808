package certificates

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/test/selfsigned"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// certificatePEM returns a certificate with its key that is valid from begin to end.
func certificatePEM(t *testing.T, name string, begin, end time.Time) string {
	t.Helper()
	cert, key := selfsigned.PEM(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end})
	return cert + key
}

func TestCertificates(t *testing.T) {
	year := func(name string, left time.Duration) string {
		return certificatePEM(t, name, noon.Add(left-365*day), noon.Add(left))
	}
	for _, tt := range []struct {
		name    string
		content string
		expires time.Time
		warning string // a part; empty: there is none
	}{
		{"valid for long", year("a", 31*day), noon.Add(31 * day), ""},
		{"expires soon", year("a", 29*day), noon.Add(29 * day), "(CN=a) in \"FILE\" expires on 2026-12-21 12:00 UTC: replace the file before that"},
		{"expires now", year("a", 0), noon, "has expired on 2026-11-22 12:00 UTC: etcd rejects this sidecar; replace the file"},
		{"the first of several counts", year("a", 90*day) + year("b", 10*day) + year("c", 60*day), noon.Add(10 * day), "(CN=b)"},
		{"short-lived and fresh", certificatePEM(t, "a", noon.Add(-day), noon.Add(6*day)), noon.Add(6 * day), ""},
		{"short-lived and not renewed", certificatePEM(t, "a", noon.Add(-5*day), noon.Add(2*day)), noon.Add(2 * day), "expires on"},
		{"no certificate", "nothing", time.Time{}, "in \"FILE\" cannot be read: no PEM certificate; repair the file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "etcd.crt")
			w := newWatch(t, Config{EtcdCert: file})
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			w.read(noon)
			list, warnings := w.List().Get(), w.Warnings().Get()
			if len(list) != 1 || list[0].Use != "etcd-client" || list[0].File != file ||
				!list[0].Expires.Equal(tt.expires) || (list[0].Problem == "") != !tt.expires.IsZero() {
				t.Errorf("got %+v, want one that expires at %s", list, tt.expires)
			}
			want := strings.ReplaceAll(tt.warning, "FILE", file)
			if n := len(warnings); tt.warning == "" && n > 0 || tt.warning != "" && (n != 1 || !strings.Contains(warnings[0], want)) {
				t.Errorf("got warnings %+v, want %q", warnings, want)
			}
		})
	}
	t.Run("a file that is missing", func(t *testing.T) {
		w := newWatch(t, Config{ClientCA: filepath.Join(t.TempDir(), "none")})
		w.read(noon)
		if got := w.Warnings().Get(); len(got) != 1 || !strings.Contains(got[0], "the CA of the HTTP API's clients") || !strings.Contains(got[0], "no such file") {
			t.Errorf("got %+v", got)
		}
	})
}

// newWatch returns a Watch. Without a kubeconfig, it gets one that has no certificate.
func newWatch(t *testing.T, cfg Config) *Watch {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Issues = func(string) bool { return false }
	cfg.Joined = func() (bool, <-chan struct{}) { return true, nil }
	if cfg.Kubeconfig == nil {
		cfg.Kubeconfig = openKubeconfig(t, filepath.Join(t.TempDir(), "kubeconfig"), "", "")
	}
	return New(cfg)
}

// openKubeconfig writes and opens a kubeconfig with fields for the cluster and the user.
func openKubeconfig(t *testing.T, file, cluster, user string) *kubeconfig.File {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", %s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := kubeconfig.Open(file, kubeconfig.Local, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The certificates of the kubeconfig are named with the file that contains them, and are
// read from its newest version.
func TestCertificates_kubeconfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, left time.Duration) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(certificatePEM(t, name, noon.Add(-365*day), noon.Add(left))), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert := write("client.crt", 5*day)
	file := openKubeconfig(t, filepath.Join(dir, "kubeconfig"), "certificate-authority: "+write("ca.crt", 300*day),
		"client-certificate: "+cert+", client-key: "+cert)
	w := newWatch(t, Config{Kubeconfig: file})
	w.read(noon)
	list, warnings := w.List().Get(), w.Warnings().Get()
	if len(list) != 2 || len(warnings) != 1 ||
		!strings.Contains(warnings[0], `the client certificate of the kubeconfig (CN=client.crt) in "`+cert+`" expires on 2026-11-27`) {
		t.Errorf("got %+v and warnings %+v", list, warnings)
	}
	write("client.crt", 300*day)
	once, cancel := context.WithCancel(t.Context())
	cancel()
	_ = file.Run(once) // one round, and the error of once
	w.read(noon)
	if list, warnings := w.List().Get(), w.Warnings().Get(); len(warnings) > 0 || !list[0].Expires.Equal(noon.Add(300*day)) {
		t.Errorf("after the file was replaced: got %+v and warnings %+v", list, warnings)
	}
}
