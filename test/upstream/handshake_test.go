package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
)

// Known: etcd verifies the chain of a client of which nothing is known, and each certificate
// in it can cost a signature check. crypto/x509 gives up after 100 of them. With keys that
// are large that is a third of a second of a processor. Ours has a shorter limit where it
// can (httpapi/access.go, maxChain), and etcd is behind a server of ours (internal/cluster/member/ports).
func TestHandshake_checksManySignatures(t *testing.T) {
	t.Parallel()
	const limit, givesUp = 100, "signature check attempts limit reached"
	info, err := transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	info.ClientCertAuth, info.TrustedCAFile = true, info.CertFile
	server, err := info.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, candidates := range []int{limit - 1, limit + 1} {
		refused := handshake(t, server, strangersChain(t, candidates))
		if refused == nil {
			t.Fatalf("a stranger's chain of %d certificates was accepted", candidates+1)
		}
		if got := strings.Contains(refused.Error(), givesUp); got != (candidates > limit) {
			gone(t, "crypto/x509 or etcd answers a stranger's chain of "+strconv.Itoa(candidates+1)+" certificates with "+refused.Error(),
				"internal/cluster/member/ports")
		}
	}
}

// handshake returns why a server rejects a client with a chain; nil: it does not.
func handshake(t *testing.T, server *tls.Config, chain tls.Certificate) error {
	t.Helper()
	here, there := net.Pipe()
	client := tls.Client(there, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &chain, nil // whatever the server asks for
	}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.HandshakeContext(t.Context()) // the server decides
		_ = there.Close()
	}()
	err := tls.Server(here, server).HandshakeContext(t.Context())
	_ = here.Close()
	<-ended
	return err
}

// strangersChain returns a certificate, and others that have the name of its issuer, and
// have not signed it.
func strangersChain(t *testing.T, candidates int) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := pkix.Name{CommonName: "a stranger"}
	create := func(serial int, subject pkix.Name, public *ecdsa.PublicKey, ca bool) []byte {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(serial)), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: ca, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: issuer}, public, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	leaf := create(1, pkix.Name{CommonName: "leaf"}, &key.PublicKey, false)
	out := tls.Certificate{PrivateKey: key, Certificate: [][]byte{leaf}}
	for i := range candidates {
		der := create(2+i, issuer, &other.PublicKey, true)
		out.Certificate = append(out.Certificate, der)
	}
	return out
}
