package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

const (
	modeSecret = 0o600
	modePublic = 0o644
)

// EnsureCA returns the authority in dir. It creates the missing files: the key, then
// the certificate. A certificate without its key is an error: a new key would make
// another authority.
func EnsureCA(dir, clusterID string) (*CA, error) {
	ca, err := LoadCA(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return ca, err
	}
	key, err := ensureKey(dir, CAKeyFile)
	if err != nil {
		return nil, fmt.Errorf("create the cluster's CA: %w", err)
	}
	if ca, err = newCA(clusterID, key, time.Now()); err != nil {
		return nil, err
	}
	if err := durable.WriteFile(filepath.Join(dir, CACertFile), ca.CertPEM(), modePublic); err != nil {
		return nil, fmt.Errorf("create the cluster's CA: %w", err)
	}
	return ca, nil
}

// LoadCA returns the authority in dir, or ErrNoKey if there is only its certificate. It
// writes nothing.
func LoadCA(dir string) (*CA, error) {
	all, err := ReadTrusted(dir)
	if err != nil {
		return nil, err
	}
	return keyedBy(dir, all[0])
}

// WriteCA writes an authority into dir, as a node that votes receives it. The key is
// written first, as EnsureCA does.
func WriteCA(dir string, ca *CA) error {
	err := durable.WriteFile(filepath.Join(dir, CAKeyFile), ca.KeyPEM(), modeSecret)
	if err == nil {
		err = WriteAuthority(dir, ca.cert)
	}
	if err != nil {
		return fmt.Errorf("write the cluster's CA: %w", err)
	}
	return nil
}

// EnsureKeyPair returns this node's key in dir, and creates it if it is missing.
func EnsureKeyPair(dir string) (*ecdsa.PrivateKey, error) {
	key, err := ensureKey(dir, NodeKeyFile)
	if err != nil {
		return nil, fmt.Errorf("this node's key: %w", err)
	}
	return key, nil
}

func ensureKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := readKey(dir, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = newKey()
	return key, durable.WriteFile(filepath.Join(dir, name), encodeKey(key), modeSecret)
}

func readKey(dir, name string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", filepath.Join(dir, name), err)
	}
	return key, nil
}

// EnsureCertificate returns this node's certificate in dir. It issues a new one if
// there is none, or if that is not valid now for this node, address and authority.
func EnsureCertificate(dir string, ca *CA, node, address string) (*x509.Certificate, error) {
	key, err := EnsureKeyPair(dir)
	if err != nil {
		return nil, err
	}
	cert, err := ReadCertificate(dir)
	switch {
	case err == nil && usable(cert, key, ca, node, address, time.Now()):
		return cert, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	text, err := ca.issue(key.Public(), node, address, time.Now())
	if err != nil {
		return nil, err
	}
	return WriteCertificate(dir, text)
}

func usable(cert *x509.Certificate, key *ecdsa.PrivateKey, ca *CA, node, address string, now time.Time) bool {
	return matches(cert, key) && cert.Subject.CommonName == node && Verify(cert, ca.cert, address, now) == nil
}

// WriteCertificate writes this node's certificate (PEM) into dir. It must be for the
// key that is there.
func WriteCertificate(dir string, text []byte) (*x509.Certificate, error) {
	cert, err := ParseCertificate(text)
	if err != nil {
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	key, err := readKey(dir, NodeKeyFile)
	if err != nil {
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	if !matches(cert, key) {
		return nil, fmt.Errorf("this node's certificate: it is not for the key in %q", filepath.Join(dir, NodeKeyFile))
	}
	if err := durable.WriteFile(filepath.Join(dir, NodeCertFile), text, modePublic); err != nil {
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	return cert, nil
}

// ReadCertificate returns this node's certificate in dir.
func ReadCertificate(dir string) (*x509.Certificate, error) {
	file := filepath.Join(dir, NodeCertFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	cert, err := ParseCertificate(text)
	if err != nil {
		return nil, fmt.Errorf("this node's certificate: %q: %w", file, err)
	}
	return cert, nil
}
