package drift

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
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

// An event that arrives at shutdown, so that it is not received any more, is
// delivered again on the next watch.
func TestWatcher_deliversAgain(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"9"}}`
	for _, tt := range []struct {
		name, version, answer string
		received              int // messages before
	}{
		{"an event", "5", `{"type":"MODIFIED","object":` + object + `}`, 1},
		{"a list that replaces events", "", `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[` + object + `]}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			client, err := kube.New(&rest.Config{Host: "http://api", Transport: lastWords{tt.answer, cancel}}, "test")
			if err != nil {
				t.Fatal(err)
			}
			messages := make(chan Message)
			kept := applyset.Key{GroupKind: applyset.ParentResource().GroupKind(), Namespace: "n", Name: "a"}
			watcher := &Watcher{Client: client, Messages: messages, Members: applyset.Members{Wanted: map[applyset.Key]bool{kept: true}}}
			w := &Watch{Resource: applyset.ParentResource(), Version: tt.version}
			done := make(chan error)
			go func() { done <- watcher.stream(ctx, w) }()
			for range tt.received {
				<-messages
			}
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if w.Version != tt.version {
				t.Errorf("the next one begins at %q, want %q", w.Version, tt.version)
			}
		})
	}
}

// A list of the set's ConfigMaps never has the parent, so it cannot show that the
// parent was deleted.
func TestWatcher_keysOf(t *testing.T) {
	s := applyset.Set{Name: "s", Namespace: "n"}
	a := applyset.Key{GroupKind: s.ParentKey().GroupKind, Namespace: "n", Name: "a"}
	secret := applyset.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "n", Name: "a"}
	watcher := &Watcher{Set: s, Keys: []applyset.Key{a, s.ParentKey(), secret}}
	for _, tt := range []struct {
		watch *Watch
		want  applyset.Key
	}{
		{&Watch{Resource: applyset.ParentResource()}, a},
		{&Watch{Resource: kube.Resource{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}}}, secret},
		{&Watch{Resource: applyset.ParentResource(), Parent: true}, s.ParentKey()},
	} {
		if got := watcher.keysOf(tt.watch); !slices.Equal(got, []applyset.Key{tt.want}) {
			t.Errorf("got %v, want %v alone", got, tt.want)
		}
	}
}
