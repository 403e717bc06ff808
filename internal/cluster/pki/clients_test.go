package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// Whom Judge lets pass is verified once for each authority of that name, and only whom an authority has issued is
// a client.
func TestClients(t *testing.T) {
	old, next, foreign := newCA(t), newCA(t), newCA(t)
	clients := pki.NewClients([]*x509.Certificate{old.Certificate(), next.Certificate()})
	issued := func(ca *pki.CA) *x509.Certificate { return issue(t, ca, newKey(t), "a", "10.0.0.1") }
	const years = 2 * 365 * 24 * time.Hour
	for name, tc := range map[string]struct {
		cert  *x509.Certificate
		at    time.Time
		valid bool
	}{
		"of the old CA":                  {issued(old), time.Now(), true},
		"of the new one":                 {issued(next), time.Now(), true},
		"of a foreign CA with this name": {issued(foreign), time.Now(), false},
		"expired":                        {issued(old), time.Now().Add(years), false},
		"not valid yet":                  {issued(old), time.Now().Add(-years), false},
	} {
		signatures, err := clients.Judge(tc.cert)
		if err != nil || signatures != 2 {
			t.Errorf("%s: %d signatures, %v", name, signatures, err)
		}
		if err := clients.Verify(tc.cert, tc.at); (err == nil) != tc.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing is verified of a certificate that no authority of the cluster issues.
func TestClients_Judge(t *testing.T) {
	ca := newCA(t).Certificate()
	clients := pki.NewClients([]*x509.Certificate{ca})
	small, large := newKey(t), new(ecdsa.PrivateKey)
	var err error
	if large, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cert x509.Certificate
		want bool
	}{
		"as ours":           {x509.Certificate{PublicKey: &small.PublicKey, RawIssuer: ca.RawSubject}, true},
		"another issuer":    {x509.Certificate{PublicKey: &small.PublicKey, RawIssuer: []byte("x")}, false},
		"another curve":     {x509.Certificate{PublicKey: &large.PublicKey, RawIssuer: ca.RawSubject}, false},
		"an RSA key":        {x509.Certificate{PublicKey: &rsa.PublicKey{}, RawIssuer: ca.RawSubject}, false},
		"no key and issuer": {},
	} {
		if _, err := clients.Judge(&tc.cert); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
