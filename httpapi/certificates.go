package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// certificatePeriod is the pause between two reads of the files. They are read in a
// loop of their own, since the handshake of a probe must not cause I/O.
const certificatePeriod = 10 * time.Second

// certificates keeps the TLS configuration that the files contain. If a change is
// invalid (half written, or a key of another certificate), the last valid one stays
// in use.
type certificates struct {
	files   TLS
	log     *slog.Logger
	metrics *metrics

	seen    pemFiles                   // as last read; used by load only
	current atomic.Pointer[tls.Config] // never nil after the first valid load
	checks  atomic.Int64               // of client certificates
	// signature is the time of one signature with the key, in nanoseconds.
	signature atomic.Int64
}

// pemFiles is the content of the files.
type pemFiles struct{ cert, key, clientCA []byte }

func (p pemFiles) equal(o pemFiles) bool {
	return bytes.Equal(p.cert, o.cert) && bytes.Equal(p.key, o.key) && bytes.Equal(p.clientCA, o.clientCA)
}

// config returns the TLS configuration of the listener.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			// The expensive part of the handshake follows.
			pay := func(price time.Duration) error { return allowance.Of(hello.Conn).Pay(hello.Context(), price) }
			if err := pay(allowance.HandshakePrice + time.Duration(c.signature.Load())); err != nil {
				return nil, err
			}
			return withKeyPrice(c.current.Load(), pay), nil
		},
	}
}

// withKeyPrice returns a configuration for one connection, whose client pays before its signature is
// checked: the key in its certificate decides what that costs.
func withKeyPrice(config *tls.Config, pay func(time.Duration) error) *tls.Config {
	if config.ClientAuth == tls.NoClientCert {
		return config
	}
	config = config.Clone()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		return pay(allowance.KeyPrice(state.PeerCertificates[0].PublicKey))
	}
	return config
}

// run reloads the files until ctx ends. On nil, it only waits.
func (c *certificates) run(ctx context.Context) {
	if c == nil {
		<-ctx.Done()
		return
	}
	_ = backoff.Every(ctx, certificatePeriod, c.reload) // its error is that ctx ended
}

// reload puts the files into use if they changed. It logs a problem of them once for each change.
func (c *certificates) reload() {
	before := c.seen
	err := c.load()
	switch {
	case c.seen.equal(before):
	case err != nil:
		c.metrics.reloaded(reloadFailed)
		c.log.Error("certificate files are invalid, the last valid ones stay in use", "err", err)
	default:
		c.metrics.reloaded(reloadOK)
		c.log.Info("certificate files reloaded")
	}
}

// load reads the files and puts them into use if they are valid and changed. A file
// that cannot be read counts as empty, so that a missing file is reported once too.
func (c *certificates) load() error {
	read, err := c.read()
	if read.equal(c.seen) && c.current.Load() != nil {
		return err
	}
	c.seen = read
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(read.cert, read.key)
	if err != nil {
		return fmt.Errorf("TLS certificate %q with key %q: %w", c.files.CertFile, c.files.KeyFile, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{cert},
	}
	if c.files.ClientCAFile != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(read.clientCA) {
			return fmt.Errorf("client CA %q contains no certificate", c.files.ClientCAFile)
		}
		config.ClientAuth = tls.RequestClientCert // verified judges it
		config.SessionTicketsDisabled = true      // a resumed session would outlive a CA that was removed
	}
	c.signature.Store(int64(signatureCost(cert)))
	c.current.Store(config)
	return nil
}

func (c *certificates) read() (pemFiles, error) {
	var out pemFiles
	var errs [3]error
	out.cert, errs[0] = os.ReadFile(c.files.CertFile)
	out.key, errs[1] = os.ReadFile(c.files.KeyFile)
	if c.files.ClientCAFile != "" {
		out.clientCA, errs[2] = os.ReadFile(c.files.ClientCAFile)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return out, fmt.Errorf("read TLS files: %w", err)
	}
	return out, nil
}
