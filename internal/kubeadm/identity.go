package kubeadm

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Identities are valid for as long as the certificates of kubeadm. Each run of sidecar
// kubeadm makes a new one, as each kubeadm upgrade renews those.
const (
	validity = 365 * 24 * time.Hour
	backdate = 5 * time.Minute // for machines whose clocks differ
)

// Authority is the CA of the cluster's clients.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

// ParseAuthority reads the CA that kubeadm made: a certificate and its key, both PEM.
func ParseAuthority(certPEM, keyPEM []byte) (Authority, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return Authority{}, errors.New("the certificate of the CA is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Authority{}, fmt.Errorf("the certificate of the CA: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return Authority{}, fmt.Errorf("the key of the CA: %w", err)
	}
	if public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return Authority{}, errors.New("the key of the CA is not that of its certificate")
	}
	return Authority{cert, certPEM, key}, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("cannot sign")
	}
	return signer, nil
}

// Kubeconfig returns a kubeconfig with a new identity for the sidecar of a node, and until
// when it is valid. server is the URL of the kube-apiserver on that node.
func (a Authority) Kubeconfig(node, server string, now time.Time) ([]byte, time.Time, error) {
	cert, private, until, err := a.Client(node, now)
	if err != nil {
		return nil, until, err
	}
	in64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `# Written by sidecar kubeadm, which renews it each time.
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority-data: %s
    server: %s
users:
- name: %[3]s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: %[3]s
  context: {cluster: kubernetes, user: %[3]q}
current-context: %[3]s
`, in64(a.pem), server, User(node), in64(cert), in64(private)), until, nil
}
