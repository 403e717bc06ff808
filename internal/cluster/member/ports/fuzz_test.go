package ports

import (
	"bytes"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cputime"
	"github.com/lockstep-dev/lockstep/test/attack"
)

// FuzzHandshake: no first message of a stranger, and no certificates after it, make the port panic, cost
// more than 30 ms of a processor, or end a handshake. The certificates are readable in TLS 1.2 only, where they follow the
// first message.
func FuzzHandshake(f *testing.F) {
	dir, ca := f.TempDir(), newCA(f)
	if err := pki.WriteCA(dir, ca); err != nil {
		f.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, ca, "a", "127.0.0.1"); err != nil {
		f.Fatal(err)
	}
	own := &certificate{certFile: filepath.Join(dir, pki.NodeCertFile), keyFile: filepath.Join(dir, pki.NodeKeyFile)}
	clients := pki.NewClients([]*x509.Certificate{ca.Certificate()})
	config := serverConfig(own, clients)
	chain, err := attack.Chain()
	if err != nil {
		f.Fatal(err)
	}
	name := forged(f, ca.Certificate(), newKey(f, elliptic.P256()))
	large := forged(f, ca.Certificate(), newKey(f, elliptic.P521()))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		first := firstMessage(f, version)
		for _, shown := range [][][]byte{
			nil, name.Certificate, large.Certificate, chain.Certificate[:1], chain.Certificate[:maxChain],
			slices.Repeat(name.Certificate, maxChain), slices.Repeat(name.Certificate, maxChain*maxChain), chain.Certificate,
		} {
			f.Add(first, listOf(shown))
		}
	}
	f.Fuzz(func(t *testing.T, first, list []byte) {
		sent := slices.Concat(first, recordsOf(list))
		var passed error
		cost, err := cputime.Of(func() {
			conn := &timedConn{Conn: &script{Reader: bytes.NewReader(sent)}, left: mostHandshake, leave: func() {}, begun: func() {}}
			passed = tls.Server(conn, config).Handshake()
		})
		if err != nil || cost > 30*time.Millisecond || passed == nil {
			t.Errorf("%d and %d bytes: it ended with %v, cost %s, %v", len(first), len(list), passed, cost, err)
		}
	})
}

// script is a client that sends what was recorded, and reads nothing.
type script struct {
	net.Conn // nil
	io.Reader
}

func (s *script) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// firstMessage returns the first message of a client that speaks a version.
func firstMessage(f *testing.F, version uint16) []byte {
	f.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, MaxVersion: version}).Handshake() // ends with the server
	}()
	message := make([]byte, 1<<14)
	n, err := server.Read(message)
	if err != nil {
		f.Fatal(err)
	}
	return message[:n]
}

// listOf returns certificates as the body of their message: each after its length, in three bytes, as all of them.
func listOf(shown [][]byte) []byte {
	var all []byte
	for _, der := range shown {
		all = slices.Concat(all, binary.BigEndian.AppendUint32(nil, uint32(len(der)))[1:], der)
	}
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(all)))[1:], all)
}

// recordsOf returns the message with certificates, and the next one: the server judges them when it has read that.
func recordsOf(body []byte) (out []byte) {
	const message, next, kind, record = 11, 16, 22, 1 << 14
	all := slices.Concat([]byte{message}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))[1:], body, []byte{next, 0, 0, 1, 0})
	for part := range slices.Chunk(all, record) {
		out = append(out, kind, 3, 3)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(part))), part...)
	}
	return out
}
