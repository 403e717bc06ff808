package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ErrNoKey is returned where the key of the cluster's CA is needed, and is missing on this
// node. A node gets it when it votes.
var ErrNoKey = errors.New("this node does not have the key of the cluster's CA")

// ReadAuthority returns the certificate of the cluster's CA in dir, also of a node without
// the CA's key.
func ReadAuthority(dir string) (*x509.Certificate, error) {
	all, err := ReadTrusted(dir)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ParseAuthority returns the certificate of a CA (PEM), without its key.
func ParseAuthority(certPEM []byte) (*x509.Certificate, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA certificate: %w", err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("the cluster's CA certificate: %q is not the certificate of a CA", cert.Subject)
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, fmt.Errorf("the cluster's CA certificate: %w", err)
	}
	return cert, nil
}

// WriteAuthority writes the certificate of a CA into dir, as a node that joins receives it. If
// dir contains another certificate of the same CA, WriteAuthority replaces it, and the other
// authorities in dir stay.
func WriteAuthority(dir string, cert *x509.Certificate) error {
	return WriteTrusted(dir, replaced(dir, cert))
}

// IssueAgain signs a new certificate for the key, the name and the address in one that
// the CA signed.
func (c *CA) IssueAgain(cert *x509.Certificate) ([]byte, error) {
	if len(cert.IPAddresses) != 1 {
		return nil, fmt.Errorf("the certificate of node %q has %d addresses, want one", cert.Subject.CommonName, len(cert.IPAddresses))
	}
	return c.issue(cert.PublicKey, cert.Subject.CommonName, cert.IPAddresses[0].String(), time.Now())
}

// NewKeyed returns the authority of a certificate and its key (PEM).
func NewKeyed(cert *x509.Certificate, keyPEM []byte) (*CA, error) {
	return ParseCA(encode(typeCertificate, cert.Raw), keyPEM)
}
