package enrol

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/internal/cputime"
	"github.com/lockstep-dev/lockstep/test/attack"
)

// maxCost is how much of a processor the body of a stranger may cost. A valid one costs a
// hundredth of it.
const maxCost = 30 * time.Millisecond

// FuzzParse: no body of a stranger makes the server panic, costs more than maxCost before
// the token is checked, or is accepted with a node that makes no sense.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"token":{"id":"000000","secret":"AAAA"},"node":"b","address":"10.0.0.2","peerPort":1,"clientPort":2,"joinPort":3,"certificateRequest":"AAAA"}`))
	f.Add([]byte(`{}`))
	f.Add(bytes.Repeat([]byte("["), maxBody))
	f.Add(slices.Concat([]byte(`{"node":"`), bytes.Repeat([]byte("a."), maxBody/4), []byte(`"}`)))
	bodies, err := attack.Bodies()
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range bodies {
		if len(body) > maxBody {
			f.Fatalf("the body has %d bytes, which is more than %d", len(body), maxBody)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cost, err := cputime.Of(func() {
			in, csr, err := parse(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body)))
			token.ParseID(in.Token.ID)
			node, senseless := in.member()
			if err == nil && csr == nil || senseless == nil && (node.Node == "" || node.Address == "") {
				t.Errorf("got %+v of %q", node, body)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if cost > maxCost {
			t.Errorf("%d bytes cost %s", len(body), cost)
		}
	})
}

// FuzzClientCertificate: no certificate of a stranger passes the handshake, makes it panic, or costs more
// than maxCost.
func FuzzClientCertificate(f *testing.F) {
	ours, err := pki.NewCA("ours")
	if err != nil {
		f.Fatal(err)
	}
	other, err := pki.NewCA("other")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, pki.CACertFile), ours.CertPEM(), 0o600); err != nil {
		f.Fatal(err)
	}
	s := NewServer(Config{PKI: dir, Log: slog.New(slog.DiscardHandler)})
	f.Add(other.Certificate().Raw)
	f.Add(bytes.Repeat([]byte{0x30}, 1<<10))
	f.Fuzz(func(t *testing.T, der []byte) {
		var passed bool
		cost, err := cputime.Of(func() { passed = s.checkClient([][]byte{der}, nil) == nil })
		if err != nil || cost > maxCost || passed {
			t.Errorf("%d bytes: passed %t, it cost %s, %v", len(der), passed, cost, err)
		}
	})
}

// FuzzServerCertificates: no server without a certificate of the CA in the token gets a request of a joining node, makes
// it panic, or costs it more than maxCost.
func FuzzServerCertificates(f *testing.F) {
	ours, err := pki.NewCA("ours")
	if err != nil {
		f.Fatal(err)
	}
	chain, err := attack.Chain()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(chain.Certificate[0], ours.Certificate().Raw)
	f.Add(ours.Certificate().Raw, ours.Certificate().Raw)
	f.Add(slices.Concat(chain.Certificate[:4]...), []byte{})
	f.Fuzz(func(t *testing.T, first, more []byte) {
		var problem error
		cost, err := cputime.Of(func() {
			shown, err := x509.ParseCertificates(slices.Concat(first, more))
			if problem = err; err == nil {
				problem = verify(tls.ConnectionState{PeerCertificates: shown}, "https://10.0.0.1:8087", pki.HashOf(ours.Certificate()), time.Now())
			}
		})
		if err != nil || cost > maxCost || problem == nil {
			t.Errorf("%d and %d bytes: got %v, it cost %s, %v", len(first), len(more), problem, cost, err)
		}
	})
}
