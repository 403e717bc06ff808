package httpapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cputime"
)

// FuzzRequest: nothing that a stranger sends makes a handler panic, costs more than 30 ms of a
// processor, or reads more than the health endpoints.
func FuzzRequest(f *testing.F) {
	f.Add("/readyz", "verbose&exclude=etcd&exclude=x", "10.0.0.1:8086", "text/plain", "")
	f.Add("/readyz/compatible", "", "cp-1.example.com", "*/*", `W/"x"`)
	f.Add("/status", "watch", "[fe80::1%25eth0]:8086", "text/*;q=0.5, */*;q=0", "*")
	f.Add("/", strings.Repeat("exclude=%00&", 1<<12), strings.Repeat("[", 1<<12), strings.Repeat("a/b;c=d,", 1<<12), strings.Repeat(`W/"",`, 1<<12))
	f.Fuzz(func(t *testing.T, path, query, host, accept, tag string) {
		local, strangers := newFixture(t, Snapshot{}, func(c *Config) { c.Hosts = []string{"cp-1"} }), newFixture(t, Snapshot{}, func(c *Config) { c.LocalOnly = true })
		for from, server := range map[string]fixture{"127.0.0.1:1": local, "10.9.9.9:1": strangers} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
			if asked(r, "watch") {
				continue // a stream does not end
			}
			r.Host, r.RemoteAddr = host, from
			r.Header.Set("Accept", accept)
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			cost, err := cputime.Of(func() { server.Handler().ServeHTTP(w, r) })
			if err != nil || cost > 30*time.Millisecond {
				t.Errorf("from %s: it cost %s, %v", from, cost, err)
			}
			if w.Code == http.StatusInternalServerError {
				t.Errorf("from %s: got a panic: %s", from, w.Body)
			}
			if from != "127.0.0.1:1" && w.Code == http.StatusOK && !isHealth(r.URL.Path) {
				t.Errorf("a stranger reads %s: %s", r.URL.Path, w.Body)
			}
		}
	})
}

// FuzzClientCertificates: no chain of certificates of a stranger costs more than 30 ms of a processor, and
// none is valid.
func FuzzClientCertificates(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der, 1)
	f.Add(der, maxChain)
	f.Add(der, 100)
	config := &tls.Config{ClientCAs: x509.NewCertPool()} // no stranger owns a certificate of it
	c := &certificates{}
	c.current.Store(config)
	f.Fuzz(func(t *testing.T, der []byte, length int) {
		valid := false
		cost, err := cputime.Of(func() {
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				return
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status", nil)
			r.TLS = &tls.ConnectionState{}
			for range min(max(length, 0), 1000) {
				r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, leaf)
			}
			valid = c.verified(r)
		})
		if err != nil || cost > 30*time.Millisecond || valid {
			t.Errorf("%d certificates: valid %t, it cost %s, %v", length, valid, cost, err)
		}
	})
}
