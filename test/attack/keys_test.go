package attack

import (
	"crypto/x509"
	"strings"
	"testing"
)

// The chain costs all the signature checks that crypto/x509 makes: it keeps no certificate twice.
func TestChain(t *testing.T) {
	chain, err := Chain()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(chain.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for _, der := range chain.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(cert)
	}
	const givesUp = "signature check attempts limit reached"
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil || !strings.Contains(err.Error(), givesUp) {
		t.Errorf("got %v, want %q", err, givesUp)
	}
}

// The signature of the largest request can be checked, and is checked last.
func TestLargeRequest(t *testing.T) {
	der, err := LargeRequest()
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	const invalid = "verification error"
	if err := request.CheckSignature(); err == nil || !strings.Contains(err.Error(), invalid) {
		t.Errorf("got %v, want %q", err, invalid)
	}
}
