package httpapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func isHealth(target string) bool {
	return strings.HasPrefix(target, "/livez") || strings.HasPrefix(target, "/healthz") || strings.HasPrefix(target, "/readyz")
}

// answer is the status code of a GET with a Host, from an address, to a listener.
func (f fixture) answer(t *testing.T, target, host, from, listener string, secured bool) int {
	t.Helper()
	own, err := net.ResolveTCPAddr("tcp", listener)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(own)), http.MethodGet, target, nil)
	r.Host, r.RemoteAddr = host, from
	if secured {
		r.TLS = &tls.ConnectionState{}
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	if w.Code == http.StatusForbidden && w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: got %s", target, w.Header().Get("Content-Type"))
	}
	return w.Code
}

// Other machines may ask whether this one is healthy, and read nothing else, unless
// they may say so.
func TestAccess_otherMachines(t *testing.T) {
	const listener = "10.0.0.1:8086"
	for from, local := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "127.9.9.9:1": true, "10.0.0.1:1": true, "[::ffff:10.0.0.1]:1": true,
		"10.0.0.2:1": false, "[fd00::1]:1": false, "[::ffff:10.0.0.2]:1": false, "": false, "pipe": false,
	} {
		for _, onlyLocal := range []bool{true, false} {
			f := newFixture(t, states(t)[1].snap, func(c *Config) { c.LocalOnly = onlyLocal })
			for _, target := range targets() {
				code := f.answer(t, target, "10.0.0.1:8086", from, listener, false)
				if want := onlyLocal && !local && !isHealth(target); (code == http.StatusForbidden) != want {
					t.Errorf("%s from %q, only local clients %t: got %d", target, from, onlyLocal, code)
				}
			}
		}
	}
}

// A stranger reads in a health check whether it fails, and the word for why. The
// messages are for clients on this machine, and for those that may read the rest.
func TestAccess_reasons(t *testing.T) {
	const secret = "maintenance for customer X, etcd at /etc/secret.key"
	cordoned := states(t)[1].snap
	cordoned.Gate.Verdict = protocol.Verdict{Reason: protocol.Cordoned, Message: secret}
	cordoned.APIServer = APIServer{Enabled: true, Message: secret}
	cordoned.Cluster = Cluster{Embedded: true, MemberProblem: secret}
	overridden := cordoned
	overridden.Gate.Verdict = protocol.Verdict{Ready: true, Reason: protocol.Overridden, Message: secret}
	overridden.Etcd.Connected, overridden.Etcd.Problem = false, secret
	overridden.APIServer.Ready = true
	for name, snap := range map[string]Snapshot{"cordoned": cordoned, "overridden": overridden} {
		for _, tc := range []struct {
			from      string
			localOnly bool
			clientCA  string
			reads     bool
		}{
			{"127.0.0.1:1", true, "", true}, {"10.0.0.1:1", true, "", true}, {"127.0.0.1:1", true, "clients.crt", true},
			{"10.0.0.2:1", true, "", false}, {"10.0.0.2:1", false, "", true}, {"10.0.0.2:1", false, "clients.crt", false},
		} {
			f := newFixture(t, snap, func(c *Config) { c.LocalOnly = tc.localOnly })
			f.cfg.TLS.ClientCAFile = tc.clientCA
			var all string
			for _, target := range []string{"/readyz?verbose", "/readyz", "/readyz?exclude=apiserver&verbose", "/readyz/compatible", "/readyz/apiserver", "/readyz/etcd-member"} {
				r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086})), http.MethodGet, target, nil)
				r.Host, r.RemoteAddr = "10.0.0.1:8086", tc.from
				w := httptest.NewRecorder()
				f.Handler().ServeHTTP(w, r)
				all += w.Body.String()
			}
			if got := strings.Contains(all, secret); got != tc.reads {
				t.Errorf("%s, from %s, local clients only %t, client CA %q: got\n%s", name, tc.from, tc.localOnly, tc.clientCA, all)
			}
			if word := string(snap.Gate.Verdict.Reason); !tc.reads && !strings.Contains(all, word) {
				t.Errorf("%s, from %s: got\n%s\nwant the word %s", name, tc.from, all, word)
			}
		}
	}
}

// A page of another site that points its own name to a loopback address reads nothing.
func TestAccess_hosts(t *testing.T) {
	for host, ours := range map[string]bool{
		"127.0.0.1:8086": true, "127.0.0.1": true, "[::1]:8086": true, "[::1]": true, "10.0.0.1:8086": true, "localhost:8086": true, "LOCALHOST": true,
		"cp-1:8086": true, "cp-1.example.com": true, "CP-1.Example.com.:8086": true, "": true,
		"evil.example": false, "evil.example:8086": false, "cp-1.evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
	} {
		for name, configured := range map[string][]string{"with": {"cp-1", "cp-1.example.com"}, "without": nil} {
			f := newFixture(t, states(t)[1].snap, func(c *Config) { c.Hosts = configured })
			for _, target := range []string{"/flagz", "/status", "/metrics", "/readyz", "/livez"} {
				code := f.answer(t, target, host, "127.0.0.1:1", "127.0.0.1:8086", false)
				if want := configured != nil && !ours && !isHealth(target); (code == http.StatusForbidden) != want {
					t.Errorf("%s of Host %q, %s names: got %d", target, host, name, code)
				}
			}
			if code := f.answer(t, "/status", host, "127.0.0.1:1", "127.0.0.1:8086", true); code != http.StatusOK {
				t.Errorf("TLS, Host %q: got %d", host, code)
			}
		}
	}
}

// A health probe works with any certificate, and the other endpoints reject a foreign one.
func TestAccess_foreignCertificate(t *testing.T) {
	ca, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	files := newTLS(t, ca)
	files.ClientCAFile = filepath.Join(t.TempDir(), "clients.crt")
	mustWrite(t, files.ClientCAFile, clients.pem)
	f := newFixture(t, states(t)[1].snap, func(c *Config) { c.TLS = files })
	base, _ := run(t, f)
	foreign := httpsClient(t, ca, &strangers)
	for _, target := range targets() {
		resp, _ := fetch(t, foreign, base+target)
		if refused := resp.StatusCode == http.StatusUnauthorized; refused == isHealth(target) {
			t.Errorf("%s: got %d", target, resp.StatusCode)
		}
	}
}

// A client CA that was removed ends open connections, and streams, of its clients.
func TestAccess_removedAuthority(t *testing.T) {
	ca, clients, others := newAuthority(t), newAuthority(t), newAuthority(t)
	files := newTLS(t, ca)
	files.ClientCAFile = filepath.Join(t.TempDir(), "clients.crt")
	mustWrite(t, files.ClientCAFile, clients.pem)
	f := newFixture(t, states(t)[1].snap, func(c *Config) { c.TLS = files })
	f.timeouts.keepAlive = 10 * time.Millisecond
	base, _ := run(t, f)
	client := httpsClient(t, ca, &clients)
	stream := openStream(t, t.Context(), client, base)
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	nextReport(t, lines)
	if err := os.WriteFile(files.ClientCAFile, others.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	f.certs.reload()
	for lines.Scan() { // until the server ends it; the test is limited in time
	}
	if resp, _ := fetch(t, client, base+"/status"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("on the same connection: got %d, want 401", resp.StatusCode)
	}
}

// The server checks the certificates of a connection once, however many requests it sends, and again
// after a reload. It does not check a long chain at all.
func TestAccess_oneCheck(t *testing.T) {
	ca, clients := newAuthority(t), newAuthority(t)
	files := newTLS(t, ca)
	files.ClientCAFile = filepath.Join(t.TempDir(), "clients.crt")
	mustWrite(t, files.ClientCAFile, clients.pem)
	f := newFixture(t, states(t)[1].snap, func(c *Config) { c.TLS = files })
	base, _ := run(t, f)
	want := func(client *http.Client, code int, times int64) {
		t.Helper()
		for range 20 {
			if resp, _ := fetch(t, client, base+"/status"); resp.StatusCode != code {
				t.Errorf("got %d, want %d", resp.StatusCode, code)
			}
		}
		if got := f.certs.checks.Load(); got != times {
			t.Errorf("%d checks, want %d", got, times)
		}
	}
	client := httpsClient(t, ca, &clients)
	want(client, http.StatusOK, 1)
	strangers := newAuthority(t)
	want(httpsClient(t, ca, &strangers), http.StatusUnauthorized, 2)

	// A chain that is valid, and too long: the leaf is of the CA, and an attacker adds the rest.
	leaf, err := tls.X509KeyPair(clients.issue(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	for range maxChain {
		leaf.Certificate = append(leaf.Certificate, clients.cert.Raw)
	}
	long := httpsClient(t, ca, &clients)
	long.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &leaf, nil }
	want(long, http.StatusUnauthorized, 2)
	if resp, _ := fetch(t, long, base+"/readyz"); resp.StatusCode == http.StatusUnauthorized {
		t.Error("the health endpoints are open to all")
	}

	mustWrite(t, files.ClientCAFile, append(clients.pem, strangers.pem...))
	f.certs.reload()
	want(client, http.StatusOK, 3)
}

// The verdict ends with the certificate.
func TestVerifyClient_expires(t *testing.T) {
	clients := newAuthority(t)
	certPEM, _ := clients.issue(t, 3)
	block, _ := pem.Decode(certPEM)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{ClientCAs: x509.NewCertPool()}
	config.ClientCAs.AddCert(clients.cert)
	for before, want := range map[time.Duration]bool{30 * time.Second: true, -30 * time.Second: false} {
		now := leaf.NotAfter.Add(-before)
		valid, until := verifyClient(config, []*x509.Certificate{leaf}, now)
		if valid != want || valid && !until.Equal(leaf.NotAfter) {
			t.Errorf("%s before the end: got %t until %s", before, valid, until)
		}
	}
}
