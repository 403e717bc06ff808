package ports

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

const (
	grpcProtocol = "h2"
	// maxChain is how many certificates a client may show. Only the first one counts.
	maxChain = 4
)

// serverConfig returns a configuration by which a stranger pays for each step of its handshake before it is taken, and
// that checks no signature for a client that cannot be a node.
func serverConfig(own *certificate, clients *pki.Clients) *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// A client that offers both asks for HTTP. Clients of gRPC offer only HTTP/2.
		NextProtos: []string{"http/1.1", grpcProtocol},
		// A key exchange with another curve costs more than a handshake's price.
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256},
		ClientAuth:       tls.RequireAnyClientCert, // VerifyConnection checks it
		// A resumed session would outlive a CA that was removed.
		SessionTicketsDisabled: true,
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		// The expensive part of the handshake follows. A client that cannot pay gets no alert of TLS, which people
		// would read as a fault of its certificate.
		pay := func(price time.Duration) error {
			err := allowance.Of(hello.Conn).Pay(hello.Context(), price)
			if err != nil {
				_ = hello.Conn.Close() // the client notices it either way
			}
			return err
		}
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
	shown := state.PeerCertificates
	switch {
	case len(shown) == 0:
		return errors.New("the client has no certificate")
	case len(shown) > maxChain:
		return fmt.Errorf("the client has a chain of %d certificates, at most %d are accepted", len(shown), maxChain)
	}
	signatures, err := clients.Judge(shown[0])
	if err != nil {
		return err
	}
	if err := pay(time.Duration(signatures+1) * allowance.KeyPrice(shown[0].PublicKey)); err != nil {
		return err
	}
	return clients.Verify(shown[0], time.Now())
}

// certificate is this node's. Its key never changes, and the files are replaced by renames.
type certificate struct {
	certFile, keyFile string

	mu     sync.Mutex // mu guards the fields below
	files  [2]fs.FileInfo
	parsed *tls.Certificate
}

// load reads the files if they were replaced. While they are invalid, the last valid ones stay in use.
func (c *certificate) load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, err := os.Stat(c.certFile)
	var key fs.FileInfo
	if err == nil {
		key, err = os.Stat(c.keyFile)
	}
	if err == nil && c.parsed != nil && same(cert, c.files[0]) && same(key, c.files[1]) {
		return c.parsed, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile)
	}
	switch {
	case err == nil:
		c.files, c.parsed = [2]fs.FileInfo{cert, key}, &pair
	case c.parsed == nil:
		return nil, fmt.Errorf("this node's certificate: %w", err)
	}
	return c.parsed, nil
}

// same reports whether a file is the one that was read. A new file may have the number of one that was deleted.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
