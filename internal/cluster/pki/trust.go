package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

// maxTrusted is how many certificates ca.crt may contain: more than any replacement needs.
const maxTrusted = 8

// ReadTrusted returns the certificates of the authorities that this node trusts, at least one.
// The first one signs.
func ReadTrusted(dir string) ([]*x509.Certificate, error) {
	file := filepath.Join(dir, CACertFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	all, err := ParseTrusted(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", file, err)
	}
	return all, nil
}

// ParseTrusted returns the certificates of authorities in a PEM text, at least one.
func ParseTrusted(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := ParseAuthority(pem.EncodeToMemory(block))
		if err != nil {
			return nil, err
		}
		if all = append(all, cert); len(all) > maxTrusted {
			return nil, fmt.Errorf("the cluster's CA certificate: there are more than %d", maxTrusted)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the cluster's CA certificate: the file has no PEM certificate")
	}
	return all, nil
}

// WriteTrusted writes the authorities that this node trusts. The first one signs, and the key of
// it may follow later.
func WriteTrusted(dir string, all []*x509.Certificate) error {
	var text []byte
	for _, cert := range all {
		text = append(text, encode(typeCertificate, cert.Raw)...)
	}
	if err := durable.WriteFile(filepath.Join(dir, CACertFile), text, modePublic); err != nil {
		return fmt.Errorf("write the cluster's CA: %w", err)
	}
	return nil
}

// replaced returns the certificates that dir trusts, with cert in place of its
// authority's present certificate. If dir does not trust that authority, it returns only
// cert.
func replaced(dir string, cert *x509.Certificate) []*x509.Certificate {
	all, err := ReadTrusted(dir)
	at := slices.IndexFunc(all, func(c *x509.Certificate) bool { return HashOf(c) == HashOf(cert) })
	if err != nil || at < 0 {
		return []*x509.Certificate{cert}
	}
	all[at] = cert
	return all
}

// IssuerOf returns the trusted authority that signed a certificate, or why none did.
func IssuerOf(cert *x509.Certificate, trusted []*x509.Certificate) (*x509.Certificate, error) {
	errs := []error{errors.New("it is of no CA that this node trusts")}
	for _, authority := range trusted {
		err := cert.CheckSignatureFrom(authority)
		if err == nil {
			return authority, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// LoadTrusted returns the trusted authority with this hash, with its key, or ErrNoKey.
func LoadTrusted(dir string, hash Hash) (*CA, error) {
	all, err := ReadTrusted(dir)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(c *x509.Certificate) bool { return HashOf(c) == hash })
	if at < 0 {
		return nil, fmt.Errorf("%w: %q does not have the CA %s", ErrNoKey, filepath.Join(dir, CACertFile), hash)
	}
	return keyedBy(dir, all[at])
}

// keyedBy returns an authority with its key, which is in one of the two files for keys. While an
// authority is being replaced, the other file may contain the other one's key.
func keyedBy(dir string, cert *x509.Certificate) (*CA, error) {
	var other error
	for _, name := range []string{CAKeyFile, NextKeyFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the cluster's CA: %w", err)
		}
		ca, err := NewKeyed(cert, text)
		if err == nil {
			return ca, nil
		}
		other = errors.Join(other, fmt.Errorf("in %q: %w", filepath.Join(dir, name), err))
	}
	trusted, err := ReadTrusted(dir)
	if other == nil || err == nil && len(trusted) > 1 {
		return nil, fmt.Errorf("%w: there is no %q", ErrNoKey, filepath.Join(dir, CAKeyFile))
	}
	return nil, other
}

// NewNext creates the authority that is to replace the one in dir, and writes its key. It
// overwrites the key of an earlier attempt.
func NewNext(dir, clusterID string) (*CA, error) {
	ca, err := NewCA(clusterID)
	if err != nil {
		return nil, err
	}
	return ca, WriteNextKey(dir, ca)
}

// WriteNextKey writes the key of the authority that is to replace the one in dir.
func WriteNextKey(dir string, ca *CA) error {
	if err := durable.WriteFile(filepath.Join(dir, NextKeyFile), ca.KeyPEM(), modeSecret); err != nil {
		return fmt.Errorf("write the key of the cluster's next CA: %w", err)
	}
	return nil
}

// AdoptNextKey replaces the old authority's key by the next one's, once the next authority
// is the one that signs. Without a next key, it does nothing.
func AdoptNextKey(dir string) error {
	signs, err := ReadAuthority(dir)
	if err != nil {
		return err
	}
	next, err := os.ReadFile(filepath.Join(dir, NextKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the key of the cluster's next CA: %w", err)
	}
	if _, err := NewKeyed(signs, next); err != nil {
		return fmt.Errorf("the key of the cluster's next CA: %w", err)
	}
	if err := os.Rename(filepath.Join(dir, NextKeyFile), filepath.Join(dir, CAKeyFile)); err != nil {
		return fmt.Errorf("write the cluster's CA: %w", err)
	}
	return durable.SyncDir(dir)
}

// DropKeys deletes all keys of authorities in dir except the key of kept.
func DropKeys(dir string, kept *x509.Certificate) error {
	for _, name := range []string{CAKeyFile, NextKeyFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the cluster's CA: %w", err)
		}
		if _, err := NewKeyed(kept, text); err == nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("delete the key of a CA that was replaced: %w", err)
		}
	}
	return durable.SyncDir(dir)
}
