package attack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"sync"
	"time"
)

const (
	// largest is how many bits of an RSA key crypto/tls accepts: such a key is the most expensive one to check.
	largest = 8192
	// candidates is one more than the checks that crypto/x509 makes for one chain.
	candidates = 101
	// exponent is the largest one of crypto/rsa.
	exponent = 1<<31 - 1
)

// Chain returns a certificate of a stranger with a hundred more. Each of those may have issued it, by
// its name, and has another large key, so that to check the chain costs a hundred signature checks.
var Chain = sync.OnceValues(makeChain)

func makeChain() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	signer, err := rsa.GenerateKey(rand.Reader, 2048) //nolint:mnd // any: its signature is replaced
	if err != nil {
		return tls.Certificate{}, err
	}
	issuer := pkix.Name{CommonName: "strangers"}
	leaf, err := newCertificate("stranger", issuer, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	if leaf, err = resign(leaf); err != nil {
		return tls.Certificate{}, err
	}
	out := tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
	for range candidates {
		public, err := randomKey(largest)
		if err != nil {
			return tls.Certificate{}, err
		}
		der, err := newCertificate(issuer.CommonName, issuer, public, key)
		if err != nil {
			return tls.Certificate{}, err
		}
		out.Certificate = append(out.Certificate, der)
	}
	return out, nil
}

// LargeKey returns a certificate of a stranger with a large key, of which it has no private one: its
// signatures are invalid, and cost a check.
var LargeKey = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	public, err := randomKey(largest)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := newCertificate("stranger", pkix.Name{CommonName: "strangers"}, public, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: forger{public}}, err
})

// LargeRequest returns a certificate request whose RSA key is as large as a request to join allows. To
// check its signature takes several hundredths of a second.
var LargeRequest = sync.OnceValues(func() ([]byte, error) {
	const bits = 46080
	key, err := randomKey(bits)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	type content struct {
		Version    int
		Subject    asn1.RawValue
		Key        asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	sha256WithRSA := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}
	signature, err := randomSignature(bits)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct {
		Content   content
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		content{Subject: asn1.RawValue{FullBytes: []byte{0x30, 0}}, Key: asn1.RawValue{FullBytes: public}, Attributes: []asn1.RawValue{}},
		sha256WithRSA, signature,
	})
})

// newCertificate returns one that signer signs.
func newCertificate(name string, issuer pkix.Name, public any, signer crypto.Signer) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: name == issuer.CommonName, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: issuer}, public, signer)
}

// resign replaces the signature of a certificate with one that has the length of a large key's.
func resign(der []byte) ([]byte, error) {
	var c struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}
	_, err := asn1.Unmarshal(der, &c)
	if err != nil {
		return nil, err
	}
	if c.Signature, err = randomSignature(largest); err != nil {
		return nil, err
	}
	return asn1.Marshal(c)
}

// randomKey returns a public key that no one has the private key of: any odd number is one.
func randomKey(bits int) (*rsa.PublicKey, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	if err != nil {
		return nil, err
	}
	return &rsa.PublicKey{N: n.SetBit(n.SetBit(n, 0, 1), bits-1, 1), E: exponent}, nil
}

// randomSignature returns one that is as long as the key, and less than it.
func randomSignature(bits int) (asn1.BitString, error) {
	out := make([]byte, bits/8) //nolint:mnd // bits of a byte
	_, err := rand.Read(out)
	out[0] &= 0x7f
	return asn1.BitString{Bytes: out, BitLength: bits}, err
}

// forger signs without a private key.
type forger struct{ public *rsa.PublicKey }

func (f forger) Public() crypto.PublicKey { return f.public }

func (f forger) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	out, err := randomSignature(f.public.N.BitLen())
	return out.Bytes, err
}
