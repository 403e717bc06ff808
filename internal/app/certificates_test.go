package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// certificatePEM returns a certificate with its key that is valid from begin to end.
func certificatePEM(t *testing.T, name string, begin, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
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
			a := newCertificateApp(t)
			a.cfg.Etcd.CertFile = filepath.Join(t.TempDir(), "etcd.crt")
			if err := os.WriteFile(a.cfg.Etcd.CertFile, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			a.readCertificates(noon)
			got := shownBy(a)
			if len(got.Certificates) != 1 || got.Certificates[0].Use != "etcd-client" || got.Certificates[0].File != a.cfg.Etcd.CertFile ||
				!got.Certificates[0].Expires.Equal(tt.expires) || (got.Certificates[0].Problem == "") != !tt.expires.IsZero() {
				t.Errorf("got %+v, want one that expires at %s", got.Certificates, tt.expires)
			}
			want := strings.ReplaceAll(tt.warning, "FILE", a.cfg.Etcd.CertFile)
			if n := len(got.Warnings); tt.warning == "" && n > 0 || tt.warning != "" && (n != 1 || !strings.Contains(got.Warnings[0].Message, want)) {
				t.Errorf("got warnings %+v, want %q", got.Warnings, want)
			}
		})
	}
	t.Run("a file that is missing", func(t *testing.T) {
		a := newCertificateApp(t)
		a.cfg.TLS.ClientCAFile = filepath.Join(t.TempDir(), "none")
		a.readCertificates(noon)
		if w := shownBy(a).Warnings; len(w) != 1 || !strings.Contains(w[0].Message, "the CA of the HTTP API's clients") || !strings.Contains(w[0].Message, "no such file") {
			t.Errorf("got %+v", w)
		}
	})
}

// newCertificateApp returns a sidecar that does not run and uses no certificate.
func newCertificateApp(t *testing.T) *App {
	t.Helper()
	a, err := New(configure(t, "http://127.0.0.1:1", newCountingAPI(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// The certificates of the kubeconfig are named with the file that contains them, and are
// read from its newest version.
func TestCertificates_kubeconfig(t *testing.T) {
	dir := t.TempDir()
	f := kubeconfigFile{t, filepath.Join(dir, "kubeconfig")}
	write := func(name string, left time.Duration) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(certificatePEM(t, name, noon.Add(-365*day), noon.Add(left))), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := newCertificateApp(t)
	cert := write("client.crt", 5*day)
	f.write("https://127.0.0.1:1", "certificate-authority: "+write("ca.crt", 300*day), "client-certificate: "+cert+", client-key: "+cert)
	a.kubeconfig = mustKubeconfig(t, f.path)
	a.readCertificates(noon)
	got := shownBy(a)
	if len(got.Certificates) != 2 || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0].Message, `the client certificate of the kubeconfig (CN=client.crt) in "`+cert+`" expires on 2026-11-27`) {
		t.Errorf("got %+v and warnings %+v", got.Certificates, got.Warnings)
	}
	write("client.crt", 300*day)
	a.kubeconfig.reload()
	a.readCertificates(noon)
	if got := shownBy(a); len(got.Warnings) > 0 || !got.Certificates[0].Expires.Equal(noon.Add(300*day)) {
		t.Errorf("after the file was replaced: got %+v and warnings %+v", got.Certificates, got.Warnings)
	}
}

// shownBy returns the snapshot that a sidecar would show if it ran.
func shownBy(a *App) httpapi.Snapshot {
	a.warned.Set(a.warningsNow(a.warned.Get(), noon))
	return a.snapshotNow()
}
