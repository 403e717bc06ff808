package soak

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestGateway checks the answer of each behaviour to a request, and whether the request is
// executed.
func TestGateway(t *testing.T) {
	executed := make(chan string, 16) // more than the requests of this test
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // cut short, as a request can be that is forwarded at once
		}
		executed <- string(body)
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{done: make(chan struct{}), tardiness: 100 * time.Millisecond, forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}}
	front := httptest.NewServer(g)
	defer front.Close()
	defer close(g.done)

	post := func(ctx context.Context) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	for m, want := range map[behaviour]int{polite: http.StatusOK, tooMany: http.StatusTooManyRequests, broken: http.StatusInternalServerError} {
		g.set(m)
		if code, err := post(t.Context()); code != want {
			t.Errorf("%s: got %d (%v), want %d", m, code, err, want)
		}
	}
	if got := <-executed; got != "body" {
		t.Errorf("got %q, want what was sent", got)
	}
	// The client gets no answer, and the request is executed all the same.
	for _, m := range []behaviour{mute, tardy} {
		g.set(m)
		before := g.spoiled.Load()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1) // one error
		go func() {
			_, err := post(ctx)
			failed <- err
		}()
		cluster.Await(t, "the request", func(context.Context) error {
			if g.spoiled.Load() == before {
				return errors.New("no request has arrived")
			}
			return nil
		})
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want no answer", m, err)
		}
		if m == tardy {
			<-executed // mute forwards it at once, and it may be cut short
		}
	}
	g.set(hanging)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := post(ctx); err == nil {
		t.Error("got an answer from a gateway that hangs")
	}
}
