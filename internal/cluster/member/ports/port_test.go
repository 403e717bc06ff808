package ports

import (
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client without a certificate of the cluster reaches no server, also at the address of a node, and the log says why.
func TestPort_strangers(t *testing.T) {
	own := newCA(t)
	name, key := own.Certificate(), newKey(t, elliptic.P256())
	small := forged(t, name, key)
	chain := func(number int, of tls.Certificate) tls.Certificate {
		out := tls.Certificate{PrivateKey: of.PrivateKey}
		for range number {
			out.Certificate = append(out.Certificate, of.Certificate[0])
		}
		return out
	}
	// A node's certificate issues nothing, although its key signs.
	valid := issue(t, own, "127.0.0.1")
	leaf, err := x509.ParseCertificate(valid.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	issued := forged(t, leaf, key)
	issued.Certificate = append(issued.Certificate, valid.Certificate[0])
	for name, tc := range map[string]struct {
		shown tls.Certificate
		want  string
	}{
		"no certificate":        {tls.Certificate{}, "didn't provide a certificate"},
		"of another CA":         {issue(t, newCA(t), "127.0.0.1"), "not valid"},
		"the CA's name":         {small, "not valid"},
		"of a node":             {issued, "no CA that this node trusts"},
		"a chain":               {chain(maxChain+1, valid), "chain of 5"},
		"100 certificates":      {chain(100, valid), "more than a certificate of the cluster needs"},
		"a large key":           {forged(t, name, newKey(t, elliptic.P521())), "no P-256 key"},
		"another one's private": {tls.Certificate{Certificate: valid.Certificate, PrivateKey: key}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, own)
			r.serve(0)
			if err := talk(r.connect(t, stranger), &tc.shown); err == nil {
				t.Error("a stranger reaches the server")
			}
			select {
			case got := <-r.warned:
				if !strings.Contains(got, tc.want) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			case <-time.After(limit / 2):
				t.Error("no refusal is logged")
			}
			if err := talk(r.connect(t, stranger), &valid); err != nil {
				t.Errorf("a node behind the same address: %v", err)
			}
			if err := talk(r.connect(t, stranger), &tc.shown); err == nil {
				t.Error("a stranger at the address of a node reaches the server")
			}
		})
	}
}

// No signature is checked of what cannot be a node's certificate: each check is paid for before it begins.
func TestVerify_cheapFirst(t *testing.T) {
	ca := newCA(t)
	clients := pki.NewClients([]*x509.Certificate{ca.Certificate()})
	parse := func(shown tls.Certificate) *x509.Certificate {
		cert, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	valid := parse(issue(t, ca, "127.0.0.1"))
	for name, tc := range map[string]struct {
		shown   []*x509.Certificate
		checked bool
		valid   bool
	}{
		"none":             {},
		"100 of them":      {shown: make([]*x509.Certificate, 100)},
		"of another curve": {shown: []*x509.Certificate{parse(forged(t, ca.Certificate(), newKey(t, elliptic.P521())))}},
		"another issuer":   {shown: []*x509.Certificate{parse(forged(t, valid, newKey(t, elliptic.P256())))}},
		"forged":           {shown: []*x509.Certificate{parse(forged(t, ca.Certificate(), newKey(t, elliptic.P256())))}, checked: true},
		"valid":            {shown: []*x509.Certificate{valid}, checked: true, valid: true},
		"valid, and more":  {shown: []*x509.Certificate{valid, ca.Certificate()}, checked: true, valid: true},
	} {
		for i := range tc.shown {
			if tc.shown[i] == nil {
				tc.shown[i] = valid
			}
		}
		var paid time.Duration
		err := verify(tls.ConnectionState{PeerCertificates: tc.shown}, clients, func(price time.Duration) error {
			paid += price
			return nil
		})
		if (err == nil) != tc.valid || (paid > 0) != tc.checked {
			t.Errorf("%s: %v, paid %s", name, err, paid)
		}
		if tc.checked {
			broke := errors.New("it cannot pay")
			if err := verify(tls.ConnectionState{PeerCertificates: tc.shown}, clients, func(time.Duration) error { return broke }); !errors.Is(err, broke) {
				t.Errorf("%s: got %v without payment", name, err)
			}
		}
	}
}

// While the CA is replaced, clients of both are nodes; and from whichever of its addresses a node connects.
func TestPort_rotation(t *testing.T) {
	next := newCA(t)
	r := newRig(t, next)
	r.serve(0)
	for name, shown := range map[string]tls.Certificate{
		"old": issue(t, r.ca, "127.0.0.1"), "new": issue(t, next, "127.0.0.1"), "another address": issue(t, next, "10.9.9.9"),
	} {
		if err := talk(r.connect(t, node), &shown); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := newCA(t)
	shown := issue(t, gone, "127.0.0.1")
	if err := talk(r.connect(t, node), &shown); err == nil {
		t.Error("a client of a CA that is not trusted is let in")
	}
}

// The server's certificate is replaced without a restart, and a damaged file does not end it.
func TestCertificate_replaced(t *testing.T) {
	r := newRig(t)
	c := &certificate{certFile: filepath.Join(r.dir, pki.NodeCertFile), keyFile: filepath.Join(r.dir, pki.NodeKeyFile)}
	load := func() string {
		got, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		return string(got.Certificate[0])
	}
	first := load()
	if load() != first {
		t.Error("it changed by itself")
	}
	if _, err := pki.EnsureCertificate(r.dir, r.ca, "another", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	second := load()
	if second == first {
		t.Error("the old one stays in use")
	}
	if err := os.WriteFile(c.certFile, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if load() != second {
		t.Error("a damaged file is used")
	}
}

// A kube-apiserver has a client for each kind of object. Those of a node that is not known yet are accepted at once,
// although all of them wait in the kernel; and then it is known, also after a restart.
func TestPort_manyOfOneNode(t *testing.T) {
	const clients = 300
	r := newRig(t)
	valid := issue(t, r.ca, "127.0.0.1")
	var running sync.WaitGroup
	for range clients {
		conn := r.connect(t, node)
		running.Go(func() {
			if err := talk(conn, &valid); err != nil {
				t.Error(err)
			}
		})
	}
	r.serve(0)
	running.Wait()
	if t.Failed() && len(r.warned) > 0 {
		t.Log(<-r.warned)
	}
	if q := r.port.ports.queue; q.open != 0 || len(q.by) != 0 {
		t.Errorf("the queue still has %d connections of %d addresses", q.open, len(q.by))
	}
	r.port.ports.Know([]string{"10.7.7.7:8089"})
	again := r.ports(t)
	if got := again.nodes.addresses(); len(got) != 1 || got[0] != node {
		t.Errorf("after a restart, the known addresses are %v", got)
	}
}

// Silent strangers, as many as there may be at their addresses and at that of a node, do not keep the node out.
func TestPort_silentStrangers(t *testing.T) {
	r := newRig(t)
	r.port.ports.queue.most = 64
	r.port.ports.Know([]string{node.String() + ":8089"})
	r.serve(0)
	for range 200 {
		r.connect(t, stranger)
		r.connect(t, node)
	}
	valid := issue(t, r.ca, "127.0.0.1")
	for range 50 {
		if err := talk(r.connect(t, node), &valid); err != nil {
			t.Fatal(err)
		}
	}
	r.port.Close()
}

// A connection ends when a read takes longer than the patience of its port, which is for the peers of etcd.
func TestPort_patience(t *testing.T) {
	r := newRig(t)
	r.serve(10 * time.Millisecond)
	valid := issue(t, r.ca, "127.0.0.1")
	client := tls.Client(r.connect(t, node), &tls.Config{
		InsecureSkipVerify:   true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &valid, nil },
	})
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want that the server ends the connection", err)
	}
}

// A client that offers only HTTP/2 is one of gRPC. All others are served over HTTP/1.1.
func TestPort_protocols(t *testing.T) {
	r := newRig(t)
	r.port.Start(0)
	valid := issue(t, r.ca, "127.0.0.1")
	for _, tc := range []struct {
		offers []string
		server net.Listener
	}{
		{nil, r.port.HTTP()}, {[]string{"h2", "http/1.1"}, r.port.HTTP()}, {[]string{"h2"}, r.port.GRPC()},
	} {
		client := tls.Client(r.connect(t, node), &tls.Config{
			InsecureSkipVerify: true, NextProtos: tc.offers,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &valid, nil },
		})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		c, err := tc.server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, is := c.(*tls.Conn); !is {
			t.Errorf("%v: the server gets a %T", tc.offers, c)
		}
		_ = c.Close()
	}
}
