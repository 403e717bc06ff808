// Package certificates follows the certificates that this sidecar uses, and warns before they expire. Watch.Run
// blocks until its context ends, and starts no goroutine.
package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"
)

// expiresSoon is how long before its expiry a certificate causes a warning.
const expiresSoon = 30 * 24 * time.Hour

// Soon returns how long before its expiry a certificate causes a warning. A certificate that is
// valid for less than expiresSoon in all is renewed by a program: with expiresSoon it would cause a
// warning all its life.
func Soon(c *x509.Certificate) time.Duration {
	if life := c.NotAfter.Sub(c.NotBefore); life < expiresSoon {
		return life / 3
	}
	return expiresSoon
}

// FirstToExpire returns the first certificate to expire in PEM content. If it is a CA that is no
// longer used, users have to remove it from the file.
func FirstToExpire(content []byte) (*x509.Certificate, error) {
	var first *x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	if first == nil {
		return nil, errors.New("no PEM certificate")
	}
	return first, nil
}

// Expiry returns when the first of the certificates in PEM content expires.
func Expiry(content []byte) (time.Time, error) {
	first, err := FirstToExpire(content)
	if err != nil {
		return time.Time{}, err
	}
	return first.NotAfter, nil
}
