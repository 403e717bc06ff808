package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
)

// Hash identifies a public key: the SHA-256 of its SubjectPublicKeyInfo. The hash of
// an authority stays the same when its certificate is renewed.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// HashOf returns the hash of a certificate's public key.
func HashOf(cert *x509.Certificate) Hash { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// HashOfRequest returns the hash of the public key in a certificate request.
func HashOfRequest(request *x509.CertificateRequest) Hash {
	return sha256.Sum256(request.RawSubjectPublicKeyInfo)
}
