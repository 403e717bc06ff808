package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("cluster")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func issue(t *testing.T, ca *pki.CA, key *ecdsa.PrivateKey, node, address string) *x509.Certificate {
	t.Helper()
	request, err := pki.NewRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Issue(request, node, address)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// The hash that a token carries is the hash of the public key.
func TestCA_hash(t *testing.T) {
	ca := newCA(t)
	raw, err := x509.MarshalPKIXPublicKey(ca.Certificate().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if ca.Hash() != pki.Hash(sha256.Sum256(raw)) {
		t.Error("the hash is not the SHA-256 of the public key")
	}
	if newCA(t).Hash() == ca.Hash() {
		t.Error("two authorities have one hash")
	}
	parsed, err := pki.ParseCA(ca.CertPEM(), ca.KeyPEM())
	if err != nil || parsed.Hash() != ca.Hash() {
		t.Errorf("got %v", err)
	}
	if _, err := pki.ParseCA(ca.CertPEM(), newCA(t).KeyPEM()); err == nil {
		t.Error("the key of another authority is accepted")
	}
}

// Of a request nothing counts but the public key.
func TestCA_Issue(t *testing.T) {
	ca, key := newCA(t), newKey(t)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root", Organization: []string{"system:masters"}}, DNSNames: []string{"other"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 9)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Issue(request, "node-a", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.String() != "CN=node-a" || len(cert.DNSNames) != 0 || len(cert.IPAddresses) != 1 || !cert.IPAddresses[0].Equal(net.IPv4(10, 0, 0, 1)) || cert.IsCA {
		t.Errorf("got subject %s, names %v, addresses %v, CA %v", cert.Subject, cert.DNSNames, cert.IPAddresses, cert.IsCA)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		t.Error("the certificate is for another key")
	}
	if again := issue(t, ca, key, "node-a", "10.0.0.1"); again.SerialNumber.Cmp(cert.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

func TestCA_Issue_refuses(t *testing.T) {
	ca := newCA(t)
	valid, err := pki.NewRequest(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	forged := append([]byte{}, valid...)
	forged[len(forged)-1] ^= 1
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, weak)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request []byte
		address string
		want    string
	}{
		"no request":         {[]byte("x"), "10.0.0.1", "certificate request"},
		"a forged signature": {forged, "10.0.0.1", "certificate request"},
		"another algorithm":  {other, "10.0.0.1", "P-256"},
		"a host name":        {valid, "localhost", `node "node-a"`},
		"no address":         {valid, "", `node "node-a"`},
	} {
		if _, err := ca.Issue(c.request, "node-a", c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A clock that is an hour off, either way, changes nothing.
func TestCA_Verify(t *testing.T) {
	ca := newCA(t)
	cert := issue(t, ca, newKey(t), "node-a", "10.0.0.1")
	now := time.Now()
	for name, c := range map[string]struct {
		ca      *pki.CA
		address string
		now     time.Time
		want    string // empty: valid
	}{
		"valid":           {ca, "10.0.0.1", now, ""},
		"an hour early":   {ca, "10.0.0.1", now.Add(-time.Hour), ""},
		"an hour late":    {ca, "10.0.0.1", now.Add(time.Hour), ""},
		"any address":     {ca, "", now, ""},
		"not yet valid":   {ca, "10.0.0.1", now.Add(-48 * time.Hour), "not yet valid"},
		"expired":         {ca, "10.0.0.1", now.Add(366 * 24 * time.Hour), "expired"},
		"another CA":      {newCA(t), "10.0.0.1", now, "unknown authority"},
		"another address": {ca, "10.0.0.2", now, "10.0.0.2"},
	} {
		err := pki.Verify(cert, c.ca.Certificate(), c.address, c.now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
