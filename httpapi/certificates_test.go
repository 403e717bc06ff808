package httpapi

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-dev/lockstep/test/attack"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate and key for 127.0.0.1 and for clients.
func (a authority) issue(t *testing.T, serial int64) (certPEM, keyPEM []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustWrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newTLS writes a certificate of a, with the serial number 2, and returns its
// files.
func newTLS(t *testing.T, a authority) TLS {
	t.Helper()
	dir := t.TempDir()
	files := TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	cert, key := a.issue(t, 2)
	mustWrite(t, files.CertFile, cert)
	mustWrite(t, files.KeyFile, key)
	return files
}

// httpsClient trusts a, and shows the certificate of issuer where there is one.
func httpsClient(t *testing.T, a authority, issuer *authority) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if issuer != nil {
		cert, err := tls.X509KeyPair(issuer.issue(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		// The server names the authorities that it wants; this client shows its
		// certificate all the same.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestTLS(t *testing.T) {
	ca, clients := newAuthority(t), newAuthority(t)
	files := newTLS(t, ca)
	files.ClientCAFile = filepath.Join(t.TempDir(), "clients.crt")
	mustWrite(t, files.ClientCAFile, clients.pem)
	f := newFixture(t, states(t)[1].snap, func(c *Config) { c.TLS = files })
	base, _ := run(t, f)
	c := loadContract(t)

	t.Run("health is open to all, the rest to clients of the CA", func(t *testing.T) {
		for _, target := range targets() {
			health := strings.HasPrefix(target, "/livez") || strings.HasPrefix(target, "/healthz") || strings.HasPrefix(target, "/readyz")
			resp, body := fetch(t, httpsClient(t, ca, nil), base+target)
			if refused := resp.StatusCode == http.StatusUnauthorized; refused == health {
				t.Errorf("%s without a certificate: got %d", target, resp.StatusCode)
			}
			c.wantKept(t, target, resp, body)
			resp, _ = fetch(t, httpsClient(t, ca, &clients), base+target)
			if resp.StatusCode == http.StatusUnauthorized || resp.ProtoMajor != 2 {
				t.Errorf("%s with a certificate: got %d by %s", target, resp.StatusCode, resp.Proto)
			}
		}
	})
}

func fetch(t *testing.T, client *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestCertificatesAreReloaded(t *testing.T) {
	ca := newAuthority(t)
	files := newTLS(t, ca)
	f := newFixture(t, Snapshot{}, func(c *Config) { c.TLS = files })
	base, _ := run(t, f)
	serial := func() int64 {
		resp, _ := fetch(t, httpsClient(t, ca, nil), base+"/livez")
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Fatalf("serial: got %d, want 2", got)
	}
	cert, key := ca.issue(t, 4)
	mustWrite(t, files.CertFile, cert)
	f.certs.reload()
	if got := serial(); got != 2 {
		t.Errorf("certificate without its key: got serial %d, want 2, the last good one", got)
	}
	mustWrite(t, files.KeyFile, key)
	f.certs.reload()
	if got := serial(); got != 4 {
		t.Errorf("both replaced: got serial %d, want 4", got)
	}
	for result, want := range map[string]float64{reloadOK: 1, reloadFailed: 1} {
		if got := testutil.ToFloat64(f.metrics.reloads.WithLabelValues(result)); got != want {
			t.Errorf("reloads %s: got %v, want %v", result, got, want)
		}
	}
}

func TestCertificateTroubleIsSaidOnce(t *testing.T) {
	files := newTLS(t, newAuthority(t))
	var logged bytes.Buffer
	c := &certificates{files: files, log: slog.New(slog.NewTextHandler(&logged, nil)), metrics: newMetrics(nil)}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		go c.run(t.Context())
		if err := os.Remove(files.KeyFile); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * certificatePeriod) // of the bubble
		synctest.Wait()
	})
	if got := strings.Count(logged.String(), "level=ERROR"); got != 1 {
		t.Errorf("got %d errors, want 1:\n%s", got, &logged)
	}
	if c.current.Load() == nil {
		t.Error("the last valid certificate is not in use")
	}
}

// A client pays for the check of its signature first: with a large key, it costs ten handshakes.
func TestCertificates_keyPrice(t *testing.T) {
	ca := newAuthority(t)
	server, err := tls.X509KeyPair(ca.issue(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	large, err := attack.LargeKey()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refused := errors.New("used too much")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		var paid time.Duration
		config := withKeyPrice(&tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequestClientCert, MaxVersion: version},
			func(price time.Duration) error { paid += price; return refused })
		handshake := func(certificate *tls.Certificate) error {
			var running sync.WaitGroup
			running.Go(func() {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return certificate, nil
				}})
				_ = client.HandshakeContext(t.Context()) // the server decides
			})
			defer running.Wait()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = tls.Server(conn, config).HandshakeContext(t.Context())
			return err
		}
		if err := handshake(&large); !errors.Is(err, refused) || paid < 4*time.Millisecond {
			t.Errorf("with a large key: paid %s, got %v", paid, err)
		}
		if paid = 0; handshake(&tls.Certificate{}) != nil || paid != 0 {
			t.Errorf("without a certificate: paid %s", paid)
		}
	}
}
