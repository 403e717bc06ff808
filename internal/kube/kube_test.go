package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
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

func TestDo(t *testing.T) {
	t.Run("sends path, user agent and time limit", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
			if got := req.URL.EscapedPath(); got != "/prefix/apis/x.test/v1/namespaces/n/things/..%2Fa" {
				t.Errorf("got path %s", got)
			}
			if got := req.UserAgent(); got != "lockstep/test" {
				t.Errorf("got user agent %q", got)
			}
			d, err := time.ParseDuration(req.URL.Query().Get("timeout"))
			if err != nil || d > 2*time.Second || d < time.Second {
				t.Errorf("got timeout %s, %v, want just below 2 s", d, err)
			}
			_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		obj, err := c.Get(ctx, things, "n", "../a")
		if err != nil || obj.GetName() != "a" {
			t.Errorf("got %v, %v", obj, err)
		}
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
		c := newClient(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Get(ctx, things, "n", "a")
		var transport *TransportError
		if !errors.As(err, &transport) || transport.Unsent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a TransportError", err)
		}
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
