// Package selfsigned makes certificates for tests that read them from files.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
)

// PEM returns a certificate like the template, which signs itself, and its key. A serial number of the
// template is kept.
func PEM(t testing.TB, template x509.Certificate) (cert, key string) {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(1)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", raw)
}
