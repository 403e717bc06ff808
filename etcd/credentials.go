package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"
)

// fileCredentials are TLS credentials that are read from their files again for each
// connection, so that renewed certificates and other authorities are used without a
// restart. If the files are invalid now (half written, or a key of another
// certificate), what was valid last stays in use.
type fileCredentials struct {
	credentials.TransportCredentials // of what was valid at the start, for what no connection changes

	cfg Config

	mu   sync.Mutex // mu guards last
	last *tls.Config
}

// newCredentials reads the files. It returns nil if there are none, or if etcd is
// reached without TLS.
func newCredentials(cfg Config) (*fileCredentials, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" {
		return nil, nil
	}
	config, err := readTLS(cfg)
	if err != nil {
		return nil, err
	}
	if len(cfg.Endpoints) > 0 && !strings.HasPrefix(cfg.Endpoints[0], "https://") {
		return nil, nil
	}
	return &fileCredentials{TransportCredentials: credentials.NewTLS(config), cfg: cfg, last: config}, nil
}

// ClientHandshake verifies the server by the authorities that the file has now.
func (c *fileCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.current()).ClientHandshake(ctx, authority, conn)
}

// Clone returns the credentials themselves: nothing overrides the server's name.
func (c *fileCredentials) Clone() credentials.TransportCredentials { return c }

// current returns the newest valid configuration; nil without files.
func (c *fileCredentials) current() *tls.Config {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, err := readTLS(c.cfg); err == nil {
		c.last = now
	}
	return c.last
}

func readTLS(cfg Config) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA %q: no PEM certificate in the file", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("etcd client certificate: %w", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}
