package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// validity is how long certificates are valid: longer than any test, and longer than
// the time before the end during which a sidecar warns.
const validity = 365 * 24 * time.Hour

// pki holds the paths of the keys that kube-apiservers of one control plane share.
type pki struct {
	caCert                string
	serverCert, serverKey string // for loopback, and the addresses of Config
	adminCert, adminKey   string // of group system:masters, which RBAC allows everything
	serviceAccountKey     string
	authority             *authority
	dir                   string
}

// newPKI creates all keys and writes them to dir.
func newPKI(dir string, addresses []net.IP) (pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pki{}, fmt.Errorf("make keys: %w", err)
	}
	p := pki{
		caCert:            filepath.Join(dir, "ca.crt"),
		serverCert:        filepath.Join(dir, "apiserver.crt"),
		serverKey:         filepath.Join(dir, "apiserver.key"),
		adminCert:         filepath.Join(dir, "admin.crt"),
		adminKey:          filepath.Join(dir, "admin.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		dir:               dir,
	}
	var err error
	if p.authority, err = newAuthority(); err == nil {
		err = p.write(addresses)
	}
	if err != nil {
		return pki{}, fmt.Errorf("make keys: %w", err)
	}
	return p, nil
}

func (p pki) write(addresses []net.IP) error {
	ca := p.authority
	if err := writePEM(p.caCert, "CERTIFICATE", ca.cert.Raw); err != nil {
		return err
	}
	if err := ca.issue(serverTemplate(addresses), p.serverCert, p.serverKey); err != nil {
		return err
	}
	if err := ca.issue(adminTemplate(), p.adminCert, p.adminKey); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return writeKey(p.serviceAccountKey, key)
}

func serverTemplate(addresses []net.IP) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes.default.svc", "lockstep.kube-system.svc"},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, addresses...),
	}
}

func adminTemplate() *x509.Certificate { return clientTemplate("admin", "system:masters") }

func clientTemplate(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// ClientCertificate issues a client certificate for a user of the kube-apiservers that
// is a member of groups, valid until notAfter. It returns the paths of the certificate
// and its key. A new one replaces the user's last one.
func (c *Cluster) ClientCertificate(user string, notAfter time.Time, groups ...string) (cert, key string, err error) {
	cert, key = filepath.Join(c.pki.dir, user+".crt"), filepath.Join(c.pki.dir, user+".key")
	template := clientTemplate(user, groups...)
	template.NotAfter = notAfter
	if err := c.pki.authority.issue(template, cert, key); err != nil {
		return "", "", fmt.Errorf("issue a certificate for %s: %w", user, err)
	}
	return cert, key, nil
}

// Authority returns the path of the certificate of the cluster's authority.
func (c *Cluster) Authority() string { return c.pki.caCert }

// WriteAuthority writes the certificate and the key of the cluster's authority.
func (c *Cluster) WriteAuthority(certFile, keyFile string) error {
	if err := writePEM(certFile, "CERTIFICATE", c.pki.authority.cert.Raw); err != nil {
		return err
	}
	return writeKey(keyFile, c.pki.authority.key)
}

// NodeCertificate issues a certificate for a kube-apiserver at an address, and at the
// addresses of the others. Its name shows clients which kube-apiserver answers.
func (c *Cluster) NodeCertificate(name string, address net.IP) (cert, key string, err error) {
	cert, key = filepath.Join(c.pki.dir, name+".crt"), filepath.Join(c.pki.dir, name+".key")
	template := serverTemplate(append([]net.IP{address}, c.cfg.Addresses...))
	template.Subject.CommonName = name
	if err := c.pki.authority.issue(template, cert, key); err != nil {
		return "", "", fmt.Errorf("issue a certificate for %s: %w", name, err)
	}
	return cert, key, nil
}

// authority is a certificate authority that signs itself.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial atomic.Int64
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "lockstep-test-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	a := &authority{cert: cert, key: key}
	a.serial.Store(1)
	return a, nil
}

// issue creates a key, signs a certificate for it, and writes both.
func (a *authority) issue(template *x509.Certificate, certFile, keyFile string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template.SerialNumber = big.NewInt(a.serial.Add(1))
	template.NotBefore = a.cert.NotBefore
	if template.NotAfter.IsZero() {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", raw); err != nil {
		return err
	}
	return writeKey(keyFile, key)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// writeKey uses the form of a private key that kube-apiserver also accepts for service
// accounts.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", raw)
}

func writePEM(path, kind string, raw []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}
