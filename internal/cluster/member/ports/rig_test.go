package ports

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = 5 * time.Minute

// handshakes is how many of nodes' addresses are under way at most in the tests.
const handshakes = 400

var node, stranger = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// rig is a port behind which a server answers with what it reads.
type rig struct {
	ca     *pki.CA
	dir    string
	port   *Port
	addr   string
	warned chan string

	mu   sync.Mutex            // mu guards from
	from map[string]netip.Addr // the addresses of clients, by those on loopback
}

// newRig returns a rig that trusts the first CA and others. It accepts no connections yet.
func newRig(t *testing.T, others ...*pki.CA) *rig {
	t.Helper()
	return newBoundedRig(t, 0, others...)
}

// newBoundedRig is newRig with a bound of connections; 0: none.
func newBoundedRig(t *testing.T, connections int, others ...*pki.CA) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), ca: newCA(t), warned: make(chan string, 1000), from: map[string]netip.Addr{}}
	if err := pki.WriteCA(r.dir, r.ca); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(r.dir, r.ca, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	trusted := []*x509.Certificate{r.ca.Certificate()}
	for _, other := range others {
		trusted = append(trusted, other.Certificate())
	}
	if err := pki.WriteTrusted(r.dir, trusted); err != nil {
		t.Fatal(err)
	}
	p := r.ports(t)
	p.timeout = limit // one processor may compute hundreds of handshakes in the tests
	var err error
	if r.port, err = p.listen("127.0.0.1:0", Bounds{handshakes, connections}, func(l net.Listener) net.Listener { return addressed{l, r} }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.port.Close)
	r.addr = r.port.listener.Addr().String()
	return r
}

// ports returns those of a member at its start.
func (r *rig) ports(t *testing.T) *Ports {
	t.Helper()
	p, err := New(Config{
		CAFile: filepath.Join(r.dir, pki.CACertFile), CertFile: filepath.Join(r.dir, pki.NodeCertFile),
		KeyFile: filepath.Join(r.dir, pki.NodeKeyFile), NodesFile: filepath.Join(r.dir, "nodes.json"),
		Warn: func(message string, keysAndValues ...any) { r.warned <- fmt.Sprintln(message, keysAndValues) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve begins to accept connections.
func (r *rig) serve(patience time.Duration) {
	for _, l := range []net.Listener{r.port.HTTP(), r.port.GRPC()} {
		go func() { // ends with the port
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { // ends with the client
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
	}
	r.port.Start(patience)
}

// addressed is a listener of connections from the addresses that the rig gave to their ports.
type addressed struct {
	net.Listener
	rig *rig
}

func (l addressed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.rig.mu.Lock()
	defer l.rig.mu.Unlock()
	if from, is := l.rig.from[c.RemoteAddr().String()]; is {
		return distant{c, from}, nil
	}
	return c, nil
}

// distant is a connection of a client at another machine.
type distant struct {
	net.Conn
	client netip.Addr
}

func (c distant) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.client, 1))
}

// connect returns a connection from an address, which says nothing yet.
func (r *rig) connect(t *testing.T, from netip.Addr) net.Conn {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	r.from[conn.LocalAddr().String()] = from
	return conn
}

// talk reports whether a client gets an answer over a connection.
func talk(conn net.Conn, shown *tls.Certificate) error {
	client := tls.Client(conn, &tls.Config{
		InsecureSkipVerify:   true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil },
	})
	defer client.Close()
	if _, err := client.Write([]byte("hello\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(client).ReadString('\n')
	if err == nil && line != "hello\n" {
		return errors.New("got " + line)
	}
	return err
}

func newCA(t testing.TB) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issue returns a certificate of a CA for a node at an address.
func issue(t *testing.T, ca *pki.CA, address string) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	if _, err := pki.EnsureCertificate(dir, ca, "b", address); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// forged returns a certificate that names an issuer and is signed by another key.
func forged(t testing.TB, issuer *x509.Certificate, key *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "b"}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent := &x509.Certificate{RawSubject: issuer.RawSubject, SubjectKeyId: issuer.SubjectKeyId} // without the key
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, newKey(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
