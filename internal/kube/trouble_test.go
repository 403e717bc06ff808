package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/report"
)

// The trouble is what the newest request met. An answer that works ends it, and a
// request that the caller cancelled is none.
func TestTrouble(t *testing.T) {
	code := http.StatusForbidden
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	c, err := New(&rest.Config{Host: server.URL}, "test")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, path string) report.Trouble {
		_, _ = c.Do(ctx, Request{Verb: http.MethodGet, Path: path}) // the trouble is what counts
		return c.Trouble()
	}
	first := ask(t.Context(), "/a")
	if first.Code != http.StatusForbidden || !first.Refused || first.Request != "GET "+server.URL+"/a" {
		t.Errorf("refused: got %+v", first)
	}
	code = http.StatusServiceUnavailable
	if got := ask(t.Context(), "/b"); got.Code != code || got.Refused {
		t.Errorf("failing: got %+v", got)
	}
	code = http.StatusNotFound
	if got := ask(t.Context(), "/c"); got != (report.Trouble{}) {
		t.Errorf("an answer that works: got %+v", got)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(cancelled, "/hang"); got != (report.Trouble{}) {
		t.Errorf("cancelled: got %+v", got)
	}
	server.Close()
	if got := ask(t.Context(), "/d"); got.Code != 0 || got.Detail != "connection refused" {
		t.Errorf("a closed port: got %+v", got)
	}
}

func TestTrouble_authority(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL}, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Do(t.Context(), Request{Verb: http.MethodGet, Path: "/"}) // the trouble is what counts
	if got := c.Trouble(); !strings.Contains(got.Detail, "x509: ") {
		t.Errorf("got %+v", got)
	}
}
