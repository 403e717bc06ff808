package etcd

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Each fault has a text of its own, and a server that is healthy has none.
func TestClient_Diagnose(t *testing.T) {
	health := func(body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/health" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and no program answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	// A server that has another protocol than HTTP behind TLS may be one of etcd that has HTTP elsewhere.
	mute, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: untrusted.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	go func() {
		for {
			conn, err := mute.Accept()
			if err != nil {
				return // it was closed
			}
			// Only after the request: a client whose connection ends before it sends names no EOF.
			_, _ = conn.Read(make([]byte, 4096))
			_ = conn.Close()
		}
	}()
	trusting := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(trusting, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: untrusted.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	stays := 0
	for endpoint, want := range map[string]string{
		health(`{"health":"true","reason":""}`):                "",
		health(`404 page not found`):                           "",
		health(`{"health":"false","reason":"ALARM NOSPACE"}`):  "its database is full, and it refuses writes; type: etcdctl --endpoints=",
		health(`{"health":"false","reason":"RAFT NO LEADER"}`): "is not healthy: RAFT NO LEADER",
		"http://" + closed.Addr().String():                     "connection refused; check that etcd runs there, and --etcd-servers",
		"http://" + silent.Addr().String():                     "no answer in 2s; check whether etcd there hangs",
		untrusted.URL:                                          "x509: certificate signed by unknown authority; check --etcd-cafile",
		// The same two servers, and the other scheme.
		strings.Replace(untrusted.URL, "https:", "http:", 1): "the server there speaks TLS; write https:// in --etcd-servers",
		strings.Replace(plain.URL, "http:", "https:", 1):     "the server there does not speak TLS; write http:// in --etcd-servers",
		"https://" + mute.Addr().String():                    "EOF",
	} {
		cfg := Config{Endpoints: []string{endpoint}}
		if strings.HasSuffix(endpoint, mute.Addr().String()) {
			cfg.CAFile = trusting
		}
		c, err := NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Diagnose(t.Context())
		stuck := strings.Join(c.Unusable(t.Context()), "; ")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(got, "; ")
		if (want == "") != (text == "") || !strings.Contains(text, want) || text != "" && !strings.HasPrefix(text, endpoint) {
			t.Errorf("%s: got %q, want %q", endpoint, text, want)
		}
		if stuck != "" {
			stays++
			if stuck != text || !strings.Contains(text, "TLS") && !strings.Contains(text, "x509") {
				t.Errorf("%s: it stays unusable because of %q", endpoint, stuck)
			}
		}
	}
	if stays != 3 {
		t.Errorf("%d of these faults stay until a user corrects the flags, want 3", stays)
	}
}

// While one server may be used, or may start, a command waits.
func TestClient_UnusableOneOf(t *testing.T) {
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	for other, want := range map[string]int{etcdtest.New(t).Endpoints()[0]: 0, untrusted.URL: 2} {
		c, err := NewClient(Config{Endpoints: []string{untrusted.URL, other}})
		if err != nil {
			t.Fatal(err)
		}
		got := c.Unusable(t.Context())
		if err := c.Close(); err != nil || len(got) != want {
			t.Errorf("with %s: got %q, %v, want %d faults", other, got, err, want)
		}
	}
}

// Whose etcd it is decides what people should do.
func TestClient_DiagnoseAdvice(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	c, err := NewClient(Config{
		Endpoints: []string{"http://" + closed.Addr().String(), untrusted.URL},
		Advice:    Advice{Closed: "start it", Silent: "wait", Authority: "replace it", Certificate: "renew it"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	got := c.Diagnose(t.Context())
	if len(got) != 2 || !strings.HasSuffix(got[0], "connection refused; start it") || !strings.HasSuffix(got[1], "; replace it") {
		t.Errorf("got %q", got)
	}
}

// An etcd with authentication denies requests without a user: the sentence has what helps.
// While no request was refused, it is not asked. test/e2e has users without rights.
func TestClient_DiagnoseDenied(t *testing.T) {
	server := etcdtest.New(t)
	root := server.Client(t)
	c, err := NewClient(Config{Endpoints: server.Endpoints(), Prefix: "/own/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	read := func() error {
		_, err := c.Get(t.Context(), "/own/x")
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if got := c.Diagnose(t.Context()); len(got) > 0 {
		t.Errorf("without authentication: got %q", got)
	}
	for _, step := range []func() error{
		func() error { _, err := root.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := root.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := root.AuthEnable(t.Context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(); err == nil {
		t.Fatal("a client without a user may read")
	}
	const want = "etcd has authentication, and no client certificate has the name of a user: check --etcd-certfile"
	if got := c.Diagnose(t.Context()); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
