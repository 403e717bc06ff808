package httpapi

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cputime"
)

// clientAt is a client at another address that makes a connection for each request.
func clientAt(script scriptedListener, remote string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			script.conns <- pipeFrom{near, &scriptedConn{remote: remote}}
			return far, nil
		},
	}}
}

// spendCommon uses up what all strangers share, and more.
func spendCommon(t *testing.T, port *allowance.Port) {
	t.Helper()
	script := scriptedListener{make(chan net.Conn, 1)}
	script.conns <- &scriptedConn{remote: "10.6.6.6"}
	conn, err := port.Listener(script, script).Accept()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first time, its address pays
		allowance.Of(conn).Charge(time.Hour)
	}
}

// keyFiles writes a key and a certificate.
func keyFiles(t *testing.T, key crypto.Signer) TLS {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	mustWrite(t, files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	mustWrite(t, files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return files
}

// While strangers use up what all share, a load balancer checks twice a second, also on a busy machine: as many checks as its
// address saves up come at once, and each takes a processor for long.
func TestRun_checksDuringAttack(t *testing.T) {
	const saved, burdened = 8, 5 * time.Millisecond
	slow, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for path, key := range map[string]crypto.Signer{"/readyz": slow, "/livez": newKey(t)} {
		f := newFixture(t, passingSnapshot(t), func(c *Config) {
			c.TLS = keyFiles(t, key)
			c.Stuck = func() []string {
				for cost := time.Duration(0); cost < burdened; {
					spent, err := cputime.Of(func() { newKey(t) })
					if err != nil {
						t.Error(err)
						break
					}
					cost += spent
				}
				return nil
			}
		})
		script := scriptedListener{make(chan net.Conn, 1)}
		ended := make(chan error, 1)
		go func() { ended <- f.Run(t.Context(), script) }()
		spendCommon(t, f.port)
		client := clientAt(script, "10.1.0.1")
		for i := range saved {
			resp, err := client.Get("https://10.0.0.1" + path)
			if err != nil {
				t.Errorf("%s, check %d: %v", path, i, err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s, check %d: got %s", path, i, resp.Status)
			}
		}
		close(script.conns)
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// Whatever the server's key, all places together have the same share, and each pays for two checks a second.
func TestPlacesFor(t *testing.T) {
	for signature, want := range map[time.Duration]int{
		30 * time.Microsecond: 16, 720 * time.Microsecond: 10, 2300 * time.Microsecond: 5, 4800 * time.Microsecond: 3, time.Second: 1,
	} {
		share, places := placesFor(signature)
		if two := 2 * (checkPrice + signature).Seconds(); places != want || share < two || places > 1 && share*float64(places) > placesShare {
			t.Errorf("%s: got %d places of %g, want %d", signature, places, share, want)
		}
	}
}

// The cost of a request is measured unless it is a check that cannot cost much, or a stream: not with a long query, nor a
// check with a certificate.
func TestFixedPrice(t *testing.T) {
	var query strings.Builder
	for i := range 700 {
		fmt.Fprintf(&query, "&%x", i)
	}
	shown := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for _, tc := range []struct {
		uri          string
		tls          *tls.ConnectionState
		fixed, stays bool
	}{
		{"/readyz", nil, true, false},
		{"/readyz/etcd?verbose&exclude=apiserver&exclude=etcd-member", &tls.ConnectionState{}, true, false},
		{"/livez", nil, true, false},
		{"/healthz", nil, true, false},
		{"/status", nil, false, false},
		{"/status?watch", nil, false, true},
		{"/readyz", shown, false, false},
		{"/readyz?" + query.String(), nil, false, false},
		{"/livez?" + query.String(), nil, false, false},
		{"/readyz/" + query.String(), nil, false, false},
		{"/status?watch" + query.String(), nil, false, false},
	} {
		r := httptest.NewRequest(http.MethodGet, tc.uri, nil)
		r.TLS = tc.tls
		if got := fixedPrice(r); got != tc.fixed {
			t.Errorf("%.60s: fixed: %t", tc.uri, got)
		}
		if got := stays(r); got != tc.stays {
			t.Errorf("%.60s: stays: %t", tc.uri, got)
		}
	}
}
