package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

func TestWatch(t *testing.T) {
	open := func(t *testing.T, handler http.HandlerFunc) (*Stream, error) {
		t.Helper()
		s, err := newClient(t, handler).WatchMetadata(t.Context(), things, "n", url.Values{"resourceVersion": {"7"}}, nil)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	t.Run("events, bookmarks, and a graceful end", func(t *testing.T) {
		s, err := open(t, func(w http.ResponseWriter, req *http.Request) {
			q := req.URL.Query()
			if req.URL.Path != "/prefix/apis/x.test/v1/namespaces/n/things" || q.Get("watch") != "true" || q.Get("resourceVersion") != "7" ||
				q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") == "" || q.Has("timeout") || req.Header.Get("Accept") != metadataOfOne {
				t.Errorf("got %s, Accept %s", req.URL, req.Header.Get("Accept"))
			}
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","metadata":{"name":"a","resourceVersion":"8"}}}
{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","metadata":{"resourceVersion":"9"}}}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := s.Next(); err != nil || e.Type != watch.Added || e.Object.GetName() != "a" {
			t.Errorf("got %+v, %v", e, err)
		}
		if e, err := s.Next(); err != nil || e.Type != watch.Bookmark || e.Object.GetResourceVersion() != "9" {
			t.Errorf("got %+v, %v", e, err)
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want %v", err, io.EOF)
		}
	})
	t.Run("an error in the stream is the API's", func(t *testing.T) {
		s, err := open(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); !apierrors.IsResourceExpired(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a rejected watch", func(t *testing.T) {
		_, err := open(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
		})
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a connection that breaks within an event", func(t *testing.T) {
		s, err := open(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"ADDED","obj`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		if err != nil {
			t.Fatal(err)
		}
		var transport *TransportError
		if _, err := s.Next(); !errors.As(err, &transport) {
			t.Errorf("got %v, want a TransportError", err)
		}
	})
	t.Run("it ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, func(w http.ResponseWriter, req *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
		})
		s, err := c.Watch(ctx, things, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Next(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
