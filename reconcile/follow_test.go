package reconcile

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// lastWords answers every request with text, and calls before when it is read.
type lastWords struct {
	text   string
	before func()
}

func (l lastWords) RoundTrip(req *http.Request) (*http.Response, error) {
	body := io.MultiReader(readerFunc(func([]byte) (int, error) { l.before(); return 0, io.EOF }), strings.NewReader(l.text))
	return &http.Response{StatusCode: http.StatusOK, Request: req, Body: io.NopCloser(body)}, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// What comes when Keep is about to end, so that nobody hears it any more, comes
// again when it goes on.
func TestStream_comesAgain(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"9"}}`
	for _, tt := range []struct {
		name, version, answer string
		heard                 int // messages before
	}{
		{"an event", "5", `{"type":"MODIFIED","object":` + object + `}`, 1},
		{"a list in place of events", "", `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[` + object + `]}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			rec, err := New(Config{
				Bundle:     event.New[*bundle.Bundle](nil),
				RESTConfig: &rest.Config{Host: "http://api", Transport: lastWords{tt.answer, cancel}},
			})
			if err != nil {
				t.Fatal(err)
			}
			k := &keeper{env: &rec.env, baseline: &baseline{}, messages: make(chan message)}
			w := &watched{gk: applyset.ParentResource().GroupKind(), resource: applyset.ParentResource(), query: url.Values{}, version: tt.version}
			done := make(chan error)
			go func() { done <- k.stream(ctx, w) }()
			for range tt.heard {
				<-k.messages
			}
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if w.version != tt.version {
				t.Errorf("the next one begins at %q, want %q", w.version, tt.version)
			}
		})
	}
}
