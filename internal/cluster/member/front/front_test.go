package front

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// rig is a port with an echo in place of etcd.
type rig struct {
	ca     *pki.CA
	dir    string
	port   *Port
	addr   string
	socket string
	inner  net.Listener
	asked  atomic.Int64 // connections that reached etcd
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), ca: newCA(t)}
	if err := pki.WriteCA(r.dir, r.ca); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(r.dir, r.ca, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{
		CAFile: filepath.Join(r.dir, pki.CACertFile), CertFile: filepath.Join(r.dir, pki.NodeCertFile),
		KeyFile: filepath.Join(r.dir, pki.NodeKeyFile), Warn: func(string, ...any) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.port, err = f.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.port.Close)
	r.addr = r.port.listener.Addr().String()
	short, err := os.MkdirTemp("", "front")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	r.socket = filepath.Join(short, "etcd")
	if r.inner, err = net.Listen("unix", r.socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.inner.Close() })
	return r
}

// serve begins, with f as etcd. f owns the connection.
func (r *rig) serve(t *testing.T, patience time.Duration, f func(net.Conn)) {
	t.Helper()
	go func() { // ends with the listener
		for {
			c, err := r.inner.Accept()
			if err != nil {
				return
			}
			r.asked.Add(1)
			go f(c)
		}
	}()
	r.port.Serve(r.socket, patience)
}

// echo sends back what it reads, and closes its side at the end.
func echo(c net.Conn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// certificate returns one of the CA.
func (r *rig) certificate(t *testing.T, ca *pki.CA) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	if _, err := pki.EnsureCertificate(dir, ca, "b", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// dial returns a connection after its handshake. A server that refuses the client says so later.
func (r *rig) dial(t *testing.T, shown *tls.Certificate, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
	if shown != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	client := tls.Client(conn, config)
	return client, client.Handshake()
}

// talks reports whether a client reaches etcd.
func (r *rig) talks(t *testing.T, shown *tls.Certificate) error {
	t.Helper()
	client, err := r.dial(t, shown)
	if err != nil {
		return err
	}
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

// forged returns a certificate that names an issuer and is signed by another key.
func forged(t *testing.T, issuer *x509.Certificate, public any, private any, authority bool) tls.Certificate {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "b"}, IsCA: authority, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent := &x509.Certificate{RawSubject: issuer.RawSubject, SubjectKeyId: issuer.SubjectKeyId} // without the key
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// A client without a certificate of the cluster never reaches etcd, and others do meanwhile.
func TestPort_strangers(t *testing.T) {
	r := newRig(t)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, ownName := newCA(t), forged(t, r.ca.Certificate(), &key.PublicKey, key, false)
	otherCA := r.certificate(t, other)
	long := ownName
	for range 100 {
		long.Certificate = append(long.Certificate, forged(t, r.ca.Certificate(), &key.PublicKey, key, true).Certificate[0])
	}
	// A node's certificate issues nothing, although its key signs.
	leaf, err := x509.ParseCertificate(valid.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	issued := forged(t, leaf, &key.PublicKey, key, false)
	issued.Certificate = append(issued.Certificate, valid.Certificate[0])
	stolen := tls.Certificate{Certificate: valid.Certificate, PrivateKey: key}
	large := forged(t, r.ca.Certificate(), &rsaKey.PublicKey, rsaKey, false)
	for name, shown := range map[string]*tls.Certificate{
		"none": {}, "of another CA of the same name": &otherCA, "forged": &ownName, "a hundred": &long,
		"issued by a node": &issued, "of another's key": &stolen, "an RSA key": &large,
	} {
		t.Run(name, func(t *testing.T) {
			before := r.asked.Load()
			if err := r.talks(t, shown); err == nil {
				t.Error("it was let in")
			}
			if r.asked.Load() != before {
				t.Error("etcd was asked")
			}
			if err := r.talks(t, &valid); err != nil {
				t.Errorf("a client of the cluster: %v", err)
			}
		})
	}
	for name, text := range map[string]string{"garbage": "GET / HTTP/1.1\r\n\r\n", "nothing": ""} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() // the slow one stays open meanwhile
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if err := r.talks(t, &valid); err != nil {
			t.Errorf("%s: a client of the cluster: %v", name, err)
		}
	}
}

// The judgement of a certificate that cannot be of the cluster costs no signature.
func TestVerify_paysFirst(t *testing.T) {
	r := newRig(t)
	clients := pki.NewClients([]*x509.Certificate{r.ca.Certificate()})
	parsed := func(c tls.Certificate) tls.ConnectionState {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	}
	var paid time.Duration
	refuse := errors.New("it used too much")
	pay := func(price time.Duration) error { paid += price; return refuse }
	if err := verify(parsed(r.certificate(t, r.ca)), clients, pay); !errors.Is(err, refuse) || paid == 0 {
		t.Errorf("got %v after %s: a client pays before its certificate is verified", err, paid)
	}
	paid = 0
	large, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := forged(t, r.ca.Certificate(), &large.PublicKey, large, false)
	if err := verify(parsed(stranger), clients, pay); err == nil || errors.Is(err, refuse) || paid != 0 {
		t.Errorf("got %v after %s: a large key is refused before all", err, paid)
	}
	if err := verify(tls.ConnectionState{}, clients, pay); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

// Clients of gRPC get HTTP/2, and all others HTTP/1.1, as etcd serves them.
func TestPort_protocols(t *testing.T) {
	r := newRig(t)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	for _, tc := range []struct {
		offered []string
		want    string
	}{
		{[]string{"h2"}, "h2"}, {[]string{"h2", "http/1.1"}, "http/1.1"}, {[]string{"http/1.1"}, "http/1.1"}, {nil, ""},
	} {
		client, err := r.dial(t, &valid, tc.offered...)
		if err != nil {
			t.Fatal(err)
		}
		if got := client.ConnectionState().NegotiatedProtocol; got != tc.want {
			t.Errorf("%v: got %q, want %q", tc.offered, got, tc.want)
		}
	}
}

// A certificate that was renewed is shown at once; while the files are invalid, the last one is.
func TestPort_certificateIsRead(t *testing.T) {
	r := newRig(t)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	serial := func() *big.Int {
		client, err := r.dial(t, &valid)
		if err != nil {
			t.Fatal(err)
		}
		return client.ConnectionState().PeerCertificates[0].SerialNumber
	}
	first := serial()
	if err := os.Remove(filepath.Join(r.dir, pki.NodeCertFile)); err != nil {
		t.Fatal(err)
	}
	if serial().Cmp(first) != 0 {
		t.Error("without a file, another certificate is shown")
	}
	if _, err := pki.EnsureCertificate(r.dir, r.ca, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if serial().Cmp(first) == 0 {
		t.Error("the new certificate is not shown")
	}
}

// Bytes arrive as they were sent, in both directions at once, in any number, and each direction ends by
// itself.
func TestPort_relays(t *testing.T) {
	r := newRig(t)
	r.serve(t, limit, func(c net.Conn) {
		defer c.Close()
		text, _ := io.ReadAll(c) // until the client closes its side
		_, _ = c.Write(text)
	})
	valid := r.certificate(t, r.ca)
	var running sync.WaitGroup
	for _, size := range []int{0, 1, smallBuffer, smallBuffer + 1, largeBuffer, 3 << 20} {
		running.Go(func() {
			client, err := r.dial(t, &valid)
			if err != nil {
				t.Error(err)
				return
			}
			sent := make([]byte, size)
			_, _ = rand.Read(sent)
			if _, err := client.Write(sent); err != nil {
				t.Error(err)
			}
			if err := client.CloseWrite(); err != nil {
				t.Error(err)
			}
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes: got %d, %v", size, len(got), err)
			}
		})
	}
	running.Wait()
}

// A client learns at once that etcd does not answer, or ended the connection, and etcd that a client has ended.
func TestPort_ends(t *testing.T) {
	r := newRig(t)
	ended := make(chan struct{}, 1)
	var ends atomic.Bool
	r.serve(t, 0, func(c net.Conn) {
		defer c.Close()
		if ends.Load() {
			_, _ = io.WriteString(c, "goodbye")
			return
		}
		_, _ = io.Copy(io.Discard, c)
		ended <- struct{}{}
	})
	valid := r.certificate(t, r.ca)
	client, err := r.dial(t, &valid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = client.NetConn().Close()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("etcd does not learn that a client has ended")
	}
	ends.Store(true)
	if client, err = r.dial(t, &valid); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(client); err != nil || string(text) != "goodbye" {
		t.Errorf("got %q, %v", text, err)
	}
	_ = r.inner.Close()
	if client, err = r.dial(t, &valid); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("etcd does not run, and a client got %v", err)
	}
}

// A client that does not receive is closed after the patience of its port.
func TestPort_patience(t *testing.T) {
	r := newRig(t)
	ended := make(chan struct{})
	r.serve(t, time.Millisecond, func(c net.Conn) {
		defer c.Close()
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				close(ended)
				return
			}
		}
	})
	valid := r.certificate(t, r.ca)
	if _, err := r.dial(t, &valid); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the connection stays open")
	}
}

// Close ends all: handshakes, and connections in both directions.
func TestPort_Close(t *testing.T) {
	r := newRig(t)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	slow, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	client, err := r.dial(t, &valid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.port.Close()
	for _, c := range []net.Conn{slow, client} {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	if open := len(r.port.open); open != 0 {
		t.Errorf("%d connections are open", open)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("the port is open")
	}
}

// A client that does not end its handshake is closed, and so is one above the bound of connections.
func TestPort_bounds(t *testing.T) {
	r := newRig(t)
	r.port.front.timeout, r.port.front.serving = limit, make(chan struct{}, 1)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	first, err := r.dial(t, &valid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := r.talks(t, &valid); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("above the bound: got %v", err)
	}
	_ = first.NetConn().Close()
	for r.talks(t, &valid) != nil && t.Context().Err() == nil { // until the end of the first is noticed
		continue
	}
	r = newRig(t)
	r.port.front.timeout = time.Millisecond
	r.serve(t, 0, echo)
	slow, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_ = slow.SetDeadline(time.Now().Add(limit))
	if _, err := slow.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a slow handshake: got %v", err)
	}
}

// distant is a listener whose clients are on another machine.
type distant struct{ net.Listener }

type distantConn struct {
	net.Conn
	client net.Addr
}

func (c distantConn) RemoteAddr() net.Addr { return c.client }

func (l distant) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return distantConn{c, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}}, nil
}

// All connections of a kube-apiserver are let in at once.
func TestPort_manyOfOneAddress(t *testing.T) {
	const clients, each = 64, 10
	r := newRig(t)
	l := distant{r.port.listener}
	r.port.listener = r.port.front.allowance.Listener(l, l)
	r.serve(t, 0, echo)
	valid := r.certificate(t, r.ca)
	r.port.front.Know([]string{"10.0.0.1:8089"})
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for range each {
				if err := r.talks(t, &valid); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if open, _ := r.port.front.opening.Counted(); open != 0 {
		t.Errorf("%d handshakes are still counted", open)
	}
}

func TestConnections(t *testing.T) {
	for files, want := range map[uint64]int{0: fewest, 1024: 256, 4096: 1280, 1 << 20: 1 << 16, 1<<64 - 1: 1 << 16} {
		if got := connections(files); got != want {
			t.Errorf("%d files: got %d, want %d", files, got, want)
		}
	}
}
