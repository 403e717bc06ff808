package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cputime"
	"github.com/lockstep-dev/lockstep/test/attack"
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
			if asked(r.URL.Query(), "watch") {
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
	stranger, err := attack.Chain()
	if err != nil {
		f.Fatal(err)
	}
	for _, length := range []int{1, maxChain, len(stranger.Certificate)} {
		f.Add(slices.Concat(stranger.Certificate[:min(length, len(stranger.Certificate))]...))
	}
	config := &tls.Config{ClientCAs: x509.NewCertPool()} // no stranger owns a certificate of it
	c := &certificates{}
	c.current.Store(config)
	f.Fuzz(func(t *testing.T, der []byte) {
		valid := false
		cost, err := cputime.Of(func() {
			chain, err := x509.ParseCertificates(der)
			if err != nil {
				return
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status", nil)
			r.TLS = &tls.ConnectionState{PeerCertificates: chain}
			valid = c.verified(r)
		})
		if err != nil || cost > 30*time.Millisecond || valid {
			t.Errorf("%d bytes: valid %t, it cost %s, %v", len(der), valid, cost, err)
		}
	})
}
