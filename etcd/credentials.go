package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// fileCredentials are TLS credentials that are read from their files again for each connection,
// so that renewed certificates and other authorities are used without a restart. If the files
// are invalid now (half written, or a key of another certificate), the last valid credentials
// stay in use.
type fileCredentials struct {
	credentials.TransportCredentials // from the files at the start; for the methods that need no current files

	cfg Config

	mu   sync.Mutex  // mu guards last
	last *tls.Config // nil: the files were never valid
}

// newCredentials reads the files. It returns nil if there are none. Files that are
// missing are an error unless they may be late.
func newCredentials(cfg Config) (*fileCredentials, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" {
		return nil, nil
	}
	config, err := readTLS(cfg)
	if err != nil && (!cfg.Late || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)) {
		return nil, err
	}
	return &fileCredentials{TransportCredentials: credentials.NewTLS(config), cfg: cfg, last: config}, nil
}

// ClientHandshake verifies the server by the authorities that are in the file now.
func (c *fileCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.current()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone returns the credentials themselves: nothing overrides the server's name.
func (c *fileCredentials) Clone() credentials.TransportCredentials { return c }

// current returns the newest valid configuration; nil without files. It fails while
// there never was one.
func (c *fileCredentials) current() (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := readTLS(c.cfg)
	if err == nil {
		c.last = now
	}
	if c.last == nil {
		return nil, fmt.Errorf("this node has no credentials for etcd yet: %w", err)
	}
	return c.last, nil
}

// missing returns an error while the files were never valid.
func (c *fileCredentials) missing() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	known := c.last != nil
	c.mu.Unlock()
	if known {
		return nil
	}
	if _, err := c.current(); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
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
