package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
)

// ClientTLS returns the TLS configuration for a client of the cluster's etcd: with the
// certificate and key in dir, and trust in the authorities there only.
func ClientTLS(dir string) (*tls.Config, error) {
	trusted, err := ReadTrusted(dir)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, NodeCertFile), filepath.Join(dir, NodeKeyFile))
	if err != nil {
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	for _, authority := range trusted {
		roots.AddCert(authority)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}
