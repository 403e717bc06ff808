package kubeadm

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
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
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return Authority{}, fmt.Errorf("the certificate and the key of the CA: %w", err)
	}
	key, signs := pair.PrivateKey.(crypto.Signer)
	if !signs {
		return Authority{}, errors.New("the key of the CA cannot sign")
	}
	return Authority{pair.Leaf, certPEM, key}, nil
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
