package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// OnChange asks its question when /status has changed, and when a second has passed, and not each time.
func TestSidecar_OnChange(t *testing.T) {
	var status, answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers.Add(1)
		_, _ = fmt.Fprint(w, status.Load())
	}))
	defer server.Close()
	s := &Sidecar{listen: strings.TrimPrefix(server.URL, "http://")}
	s.client = s.NewClient(0)
	asked := int64(0)
	refused := errors.New("not yet")
	cond := s.OnChange(func(context.Context) error { asked++; return refused })
	for range 2 {
		status.Add(1)
		were := asked
		if err := cond(t.Context()); !errors.Is(err, refused) || asked != were+1 {
			t.Fatalf("got %v, asked %d times, before the change %d times", err, asked, were)
		}
	}
	for first := asked; asked == first; {
		if err := cond(t.Context()); !errors.Is(err, refused) {
			t.Fatal(err)
		}
	}
	if answers.Load() <= asked {
		t.Errorf("asked %d times, for %d answers that were mostly the same", asked, answers.Load())
	}
	server.Close()
	were := asked
	if err := cond(t.Context()); !errors.Is(err, refused) || asked != were+1 {
		t.Errorf("without an answer: got %v, asked %d times, before it %d times", err, asked, were)
	}
}
