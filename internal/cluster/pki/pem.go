package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	typeCertificate = "CERTIFICATE"
	typeKey         = "PRIVATE KEY"
)

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // a P-256 key always marshals
	}
	return encode(typeKey, der)
}

// ParseCertificate returns the one certificate of a PEM text.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	der, err := decode(typeCertificate, text)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	der, err := decode(typeKey, text)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	key, is := parsed.(*ecdsa.PrivateKey)
	if !is || key.Curve != elliptic.P256() {
		return nil, errors.New("it is no P-256 key")
	}
	return key, nil
}

// decode returns the content of the one block in a PEM text.
func decode(kind string, text []byte) ([]byte, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, fmt.Errorf("no PEM block %q", kind)
	case block.Type != kind:
		return nil, fmt.Errorf("a PEM block %q, not %q", block.Type, kind)
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("more than one PEM block")
	}
	return block.Bytes, nil
}

// NewRequest returns a certificate request (DER) that proves the possession of the
// key. It names nothing: the issuer decides the name and the address.
func NewRequest(key *ecdsa.PrivateKey) ([]byte, error) {
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	return request, nil
}

// ParseRequest returns a certificate request (DER) of a P-256 key, the only kind that nodes send. It does
// not check the signature, so that a sender costs nothing before it is known: CheckRequest does.
func ParseRequest(request []byte) (*x509.CertificateRequest, error) {
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if key, is := parsed.PublicKey.(*ecdsa.PublicKey); !is || key.Curve != elliptic.P256() {
		return nil, errors.New("certificate request: it has no P-256 key")
	}
	return parsed, nil
}

// CheckRequest returns an error unless the sender of a certificate request holds the private key of its
// public key. Call ParseRequest first: with a larger key than it accepts, the check alone takes a tenth
// of a second.
func CheckRequest(request *x509.CertificateRequest) error {
	if err := request.CheckSignature(); err != nil {
		return fmt.Errorf("certificate request: %w", err)
	}
	return nil
}
