package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The chain costs all the signature checks that crypto/x509 makes: it keeps no certificate twice.
func TestChain(t *testing.T) {
	chain, err := Chain()
	if err != nil {
		t.Fatal(err)
	}
	leaf, options := parsed(t, chain)
	const givesUp = "signature check attempts limit reached"
	if _, err := leaf.Verify(options); err == nil || !strings.Contains(err.Error(), givesUp) {
		t.Errorf("got %v, want %q", err, givesUp)
	}
}

// parsed returns the leaf of a stranger's chain, and what a server verifies it with.
func parsed(tb testing.TB, chain tls.Certificate) (*x509.Certificate, x509.VerifyOptions) {
	tb.Helper()
	pool := x509.NewCertPool()
	var leaf *x509.Certificate
	for i, der := range chain.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			tb.Fatal(err)
		}
		if i == 0 {
			leaf = cert
		} else {
			pool.AddCert(cert)
		}
	}
	return leaf, x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
}

// BenchmarkChain measures what a server without a limit computes for one connection of a stranger
// (docs/adr/0024-strangers-have-an-allowance.md#etcd).
func BenchmarkChain(b *testing.B) {
	large, err := Chain()
	if err != nil {
		b.Fatal(err)
	}
	chains := map[string]tls.Certificate{"RSA-8192": large}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		chains[curve.Params().Name] = ellipticChain(b, curve)
	}
	for name, chain := range chains {
		b.Run(name, func(b *testing.B) {
			leaf, options := parsed(b, chain)
			began := computed(b)
			for b.Loop() {
				if _, err := leaf.Verify(options); err == nil {
					b.Fatal("a stranger was let in")
				}
			}
			b.ReportMetric(float64((computed(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// computed is how long this process computed: other work on the machine does not count.
func computed(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// ellipticChain is Chain with keys of an elliptic curve.
func ellipticChain(b *testing.B, curve elliptic.Curve) (out tls.Certificate) {
	b.Helper()
	issuer := pkix.Name{CommonName: "strangers"}
	signer, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	for i := range candidates + 1 {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		name := issuer.CommonName
		if i == 0 {
			name = "stranger"
		}
		der, err := newCertificate(name, issuer, &key.PublicKey, signer)
		if err != nil {
			b.Fatal(err)
		}
		out.Certificate = append(out.Certificate, der)
	}
	return out
}

// The signature of the largest request can be checked, and is checked last.
func TestLargeRequest(t *testing.T) {
	der, err := LargeRequest()
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	const invalid = "verification error"
	if err := request.CheckSignature(); err == nil || !strings.Contains(err.Error(), invalid) {
		t.Errorf("got %v, want %q", err, invalid)
	}
}
