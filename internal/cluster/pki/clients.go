package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Clients checks the certificates of clients. It computes nothing for one that no authority of the cluster
// can have issued. It does not change.
type Clients struct {
	trusted []*x509.Certificate
	pool    *x509.CertPool
}

// NewClients returns the check for clients of these authorities.
func NewClients(trusted []*x509.Certificate) *Clients {
	c := &Clients{trusted: trusted, pool: x509.NewCertPool()}
	for _, authority := range trusted {
		c.pool.AddCert(authority)
	}
	return c
}

// Judge returns how many signatures Verify checks at most, or why the client is a stranger. No authority has an
// intermediate one: what a client sends besides its own certificate counts for nothing.
func (c *Clients) Judge(cert *x509.Certificate) (signatures int, err error) {
	if key, is := cert.PublicKey.(*ecdsa.PublicKey); !is || key.Curve != elliptic.P256() {
		return 0, errors.New("the certificate has no P-256 key, as those of the cluster's CA have")
	}
	for _, authority := range c.trusted {
		if bytes.Equal(authority.RawSubject, cert.RawIssuer) {
			signatures++
		}
	}
	if signatures == 0 {
		return 0, errors.New("the certificate is of no CA that this node trusts")
	}
	return signatures, nil
}

// Verify returns why a certificate is none of a client; nil: an authority has issued it as one, and it is valid now.
func (c *Clients) Verify(cert *x509.Certificate, now time.Time) error {
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: c.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the certificate is not valid: %w", err)
	}
	return nil
}
