package httpapi

import (
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
type pemFiles struct{ cert, key, clientCA string }

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

// run reloads the files until ctx ends.
func (c *certificates) run(ctx context.Context) {
	_ = backoff.Every(ctx, certificatePeriod, c.reload) // its error is that ctx ended
}

// reload puts the files into use if they changed. It logs a problem of them once for each change.
func (c *certificates) reload() {
	before := c.seen
	err := c.load()
	switch {
	case c.seen == before:
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
	if read == c.seen && c.current.Load() != nil {
		return err
	}
	c.seen = read
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair([]byte(read.cert), []byte(read.key))
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
		if !config.ClientCAs.AppendCertsFromPEM([]byte(read.clientCA)) {
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
	var failed error
	content := func(file string) string {
		text, err := os.ReadFile(file)
		failed = errors.Join(failed, err)
		return string(text)
	}
	out := pemFiles{cert: content(c.files.CertFile), key: content(c.files.KeyFile)}
	if c.files.ClientCAFile != "" {
		out.clientCA = content(c.files.ClientCAFile)
	}
	if failed != nil {
		return out, fmt.Errorf("read TLS files: %w", failed)
	}
	return out, nil
}
