package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// pkiDir has an authority (ca) and a certificate of it for loopback (cert, key).
type pkiDir struct{ ca, cert, key string }

// write replaces the authority and the certificate.
func (p pkiDir) write(t *testing.T) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	authority, key := newKey(), newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	encode := func(file, kind string, der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, authority.Public(), authority)
	encode(p.ca, "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), authority)
	encode(p.cert, "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	encode(p.key, "EC PRIVATE KEY", der, err)
}

// The authority of the etcd servers is replaced while a client runs. It uses the new
// one for its next connection, and trusts the old one no longer. A file that is half
// written changes nothing.
func TestClient_rotatedCA(t *testing.T) {
	dir := t.TempDir()
	pki := pkiDir{ca: filepath.Join(dir, "ca"), cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	pki.write(t)
	server, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir(), CertFile: pki.cert, KeyFile: pki.key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	trusted := filepath.Join(dir, "trusted") // the client's file
	trust := func() {
		t.Helper()
		pem, err := os.ReadFile(pki.ca)
		if err == nil {
			err = os.WriteFile(trusted, pem, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust()
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: "/p", CAFile: trusted, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	restart := func() {
		t.Helper()
		server.Stop()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	answers := func() bool { return client.Check(t.Context()) == nil }
	until(t, "etcd answers", answers)

	if err := os.WriteFile(trusted, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	restart()
	until(t, "etcd answers, and the file is invalid", answers)

	pki.write(t)
	trust()
	restart()
	until(t, "etcd answers with a certificate of the new authority", answers)

	pki.write(t)
	restart()
	for range 3 {
		if answers() {
			t.Fatal("a server of an authority that the client does not trust was asked")
		}
	}
}

// The files do not exist when the client is made. It connects when they do, and until
// then says what is missing.
func TestClient_lateFiles(t *testing.T) {
	dir := t.TempDir()
	pki := pkiDir{ca: filepath.Join(dir, "ca"), cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	cfg := etcd.Config{
		Endpoints: []string{"https://" + addr}, Prefix: "/p", CAFile: pki.ca, CertFile: pki.cert, KeyFile: pki.key,
		RequestTimeout: time.Second,
	}
	if _, err := etcd.NewClient(cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not late: got %v", err)
	}
	cfg.Late = true
	client, err := etcd.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	listener, err := net.Listen("tcp", addr) // a connection succeeds, the handshake does not
	if err != nil {
		t.Fatal(err)
	}
	err = client.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "this node has no credentials for etcd yet") || !strings.Contains(err.Error(), pki.ca) {
		t.Errorf("got %v", err)
	}
	if problems := client.Diagnose(t.Context()); len(problems) != 1 || !strings.Contains(problems[0], pki.ca) {
		t.Errorf("got %q", problems)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	pki.write(t)
	server, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir(), Addr: addr, CertFile: pki.cert, KeyFile: pki.key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	until(t, "etcd answers", func() bool { return client.Check(t.Context()) == nil })
}
