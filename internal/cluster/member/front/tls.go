package front

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// serverConfig returns a configuration by which a client pays for each step of its handshake before it is taken.
func serverConfig(own *certificate, clients *pki.Clients) *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// etcd serves gRPC alone over HTTP/2, and the clients of gRPC offer nothing else.
		NextProtos: []string{"http/1.1", "h2"},
		// A key exchange with another curve costs more than a handshake's price.
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256},
		ClientAuth:       tls.RequireAnyClientCert, // VerifyConnection judges it
		// A resumed session would outlive a CA that was removed.
		SessionTicketsDisabled: true,
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		// The expensive part of the handshake follows.
		pay := func(price time.Duration) error { return allowance.Of(hello.Conn).Pay(hello.Context(), price) }
		if err := pay(handshakePrice); err != nil {
			return nil, err
		}
		shown, err := own.load()
		if err != nil {
			return nil, err
		}
		config := base.Clone()
		config.GetConfigForClient, config.Certificates = nil, []tls.Certificate{*shown}
		config.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, clients, pay) }
		return config, nil
	}
	return base
}

// verify returns why a client is a stranger. It is called before the client's own signature is checked.
func verify(state tls.ConnectionState, clients *pki.Clients, pay func(time.Duration) error) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	leaf := state.PeerCertificates[0]
	signatures, err := clients.Judge(leaf)
	if err != nil {
		return err
	}
	if err := pay(time.Duration(signatures+1) * allowance.KeyPrice(leaf.PublicKey)); err != nil {
		return err
	}
	return clients.Verify(leaf, time.Now())
}

// certificate is this node's. Its key never changes, and the files are replaced by renames.
type certificate struct {
	certFile, keyFile string

	mu        sync.Mutex // mu guards the fields below
	cert, key []byte     // as last read
	parsed    *tls.Certificate
}

// load reads the files, and parses them if they changed. While they are invalid, the last valid ones stay in use.
func (c *certificate) load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, err := os.ReadFile(c.certFile)
	var key []byte
	if err == nil {
		key, err = os.ReadFile(c.keyFile)
	}
	if err == nil && c.parsed != nil && bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return c.parsed, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(cert, key)
	}
	switch {
	case err == nil:
		c.cert, c.key, c.parsed = cert, key, &pair
	case c.parsed == nil:
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	return c.parsed, nil
}
