package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var things = Resource{GroupVersionKind: schema.GroupVersionKind{Group: "x.test", Version: "v1", Kind: "Thing"}, Name: "things", Namespaced: true}

// newClient returns a client of a server that answers with handler.
func newClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL + "/prefix"}, "lockstep/test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// newLocalClient returns a client whose requests are answered by respond, without a
// connection.
func newLocalClient(t *testing.T, respond func(*http.Request) (*http.Response, error)) *Client {
	t.Helper()
	c, err := New(&rest.Config{
		Host:          "http://local.test",
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return roundTripper(respond) },
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDo(t *testing.T) {
	t.Run("sends path and user agent", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
			if got := req.URL.EscapedPath(); got != "/prefix/apis/x.test/v1/namespaces/n/things/..%2Fa" {
				t.Errorf("got path %s", got)
			}
			if got := req.UserAgent(); got != "lockstep/test" {
				t.Errorf("got user agent %q", got)
			}
			_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
		})
		obj, err := c.Get(t.Context(), things, "n", "../a")
		if err != nil || obj.GetName() != "a" {
			t.Errorf("got %v, %v", obj, err)
		}
	})
	t.Run("sends a time limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var limits []string
			c := newLocalClient(t, func(req *http.Request) (*http.Response, error) {
				limits = append(limits, req.URL.Query().Get("timeout"))
				body := io.NopCloser(strings.NewReader(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			for _, ctx := range []context.Context{ctx, t.Context()} {
				if _, err := c.Get(ctx, things, "n", "a"); err != nil {
					t.Error(err)
				}
			}
			if want := []string{"2000ms", "5000ms"}; !slices.Equal(limits, want) {
				t.Errorf("got limits %q, want that of the caller and then the longest, %q", limits, want)
			}
		})
	})
	t.Run("an error has the API's message", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"modified","reason":"Conflict","code":409}`))
		})
		_, err := c.Get(t.Context(), things, "n", "a")
		if !apierrors.IsConflict(err) || err.Error() != "modified" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an error that is no Status has its code and pause", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("slow down"))
		})
		_, err := c.Get(t.Context(), things, "n", "a")
		seconds, suggested := apierrors.SuggestsClientDelay(err)
		if !apierrors.IsTooManyRequests(err) || !suggested || seconds != 3 {
			t.Errorf("got %v, %d", err, seconds)
		}
	})
	t.Run("a request without an answer may have taken effect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newLocalClient(t, func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := c.Get(ctx, things, "n", "a")
			var transport *TransportError
			if !errors.As(err, &transport) || transport.Unsent || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a TransportError", err)
			}
			synctest.Wait() // the request has ended, too
		})
	})
	t.Run("without a connection, nothing was sent", func(t *testing.T) {
		c, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Get(t.Context(), things, "n", "a")
		var transport *TransportError
		if !errors.As(err, &transport) || !transport.Unsent {
			t.Errorf("got %v, want a TransportError that was never sent", err)
		}
	})
}
