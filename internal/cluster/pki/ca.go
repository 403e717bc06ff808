package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"
)

// CA is the certificate authority of a cluster. It does not change.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA creates an authority. The ID of the cluster is in its name, for people.
func NewCA(clusterID string) (*CA, error) {
	return newCA(clusterID, newKey(), time.Now())
}

func newCA(clusterID string, key *ecdsa.PrivateKey, now time.Time) (*CA, error) {
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "lockstep-ca-" + clusterID},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create the cluster's CA: %w", err)
	}
	return &CA{cert: cert, key: key}, nil
}

// ParseCA returns the authority of a certificate and its key, both PEM.
func ParseCA(certPEM, keyPEM []byte) (*CA, error) {
	cert, err := ParseAuthority(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA key: %w", err)
	}
	if !matches(cert, key) {
		return nil, errors.New("the cluster's CA key is not that of its certificate")
	}
	return &CA{cert: cert, key: key}, nil
}

// Certificate returns the authority's certificate. It must not be changed.
func (c *CA) Certificate() *x509.Certificate { return c.cert }

// CertPEM returns the authority's certificate.
func (c *CA) CertPEM() []byte { return encode(typeCertificate, c.cert.Raw) }

// KeyPEM returns the authority's private key. It is a secret.
func (c *CA) KeyPEM() []byte { return encodeKey(c.key) }

// Hash returns the hash that identifies the authority, also after its certificate was renewed.
func (c *CA) Hash() Hash { return HashOf(c.cert) }

// Issue signs a certificate for a node, as server and as client, and returns it as PEM. Of the
// request (DER, from NewRequest) it uses nothing but the public key: the caller must verify node and
// address first. address is an IP.
func (c *CA) Issue(request []byte, node, address string) ([]byte, error) {
	parsed, err := ParseRequest(request)
	if err != nil {
		return nil, err
	}
	if err := CheckRequest(parsed); err != nil {
		return nil, err
	}
	return c.issue(parsed.PublicKey, node, address, time.Now())
}

func (c *CA) issue(key crypto.PublicKey, node, address string, now time.Time) ([]byte, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for node %q: %w", node, err)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: node},
		NotBefore:    now.Add(-backdate),
		NotAfter:     slices.MinFunc([]time.Time{now.Add(leafLife), c.cert.NotAfter}, time.Time.Compare),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{ip.Unmap().AsSlice()},

		BasicConstraintsValid: true,
	}
	cert, err := sign(template, c.cert, key, c.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for node %q: %w", node, err)
	}
	return encode(typeCertificate, cert.Raw), nil
}

// renewed returns the authority with a new certificate for the same key and name.
// Certificates that the old one signed are valid under the new one too.
func (c *CA) renewed(now time.Time) (*CA, error) {
	template := *c.cert
	template.SerialNumber, template.NotBefore, template.NotAfter = newSerial(), now.Add(-backdate), now.Add(caLife)
	cert, err := sign(&template, &template, c.key.Public(), c.key)
	if err != nil {
		return nil, err
	}
	return &CA{cert: cert, key: c.key}, nil
}

// Verify returns an error about a node's certificate; nil: authority signed it, for
// that address, and both are valid at now. An empty address is not checked.
func Verify(cert, authority *x509.Certificate, address string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			return err
		}
	}
	if address == "" {
		return nil
	}
	return cert.VerifyHostname(address)
}

func sign(template, parent *x509.Certificate, key crypto.PublicKey, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // only for another curve
	}
	return key
}

// serialBits is the size of serial numbers, which are random: no member counts them.
const serialBits = 127

func newSerial() *big.Int {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		panic(err) // crypto/rand never returns an error
	}
	return serial.Add(serial, big.NewInt(1)) // never 0
}

func matches(cert *x509.Certificate, key *ecdsa.PrivateKey) bool {
	public, is := cert.PublicKey.(*ecdsa.PublicKey)
	return is && public.Equal(key.Public())
}
