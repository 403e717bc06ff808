package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// quietAPI has the objects as a Publisher writes them, and counts requests.
type quietAPI struct {
	mu       sync.Mutex // mu guards requests
	requests map[string]int
}

func (q *quietAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := sliceResource
	if strings.HasSuffix(req.URL.Path, "/endpoints") {
		kind = endpointsResource
	}
	what := req.Method
	var body io.ReadCloser
	if req.URL.Query().Get("watch") == "true" {
		what = "WATCH"
		seconds, err := strconv.Atoi(req.URL.Query().Get("timeoutSeconds"))
		if err != nil {
			return nil, err
		}
		stream, end := io.Pipe() // it ends as a server does that has nothing to report
		context.AfterFunc(req.Context(), func() { _ = end.CloseWithError(req.Context().Err()) })
		time.AfterFunc(time.Duration(seconds)*time.Second, func() { _ = end.Close() })
		body = stream
	} else {
		body = io.NopCloser(strings.NewReader(listOf(kind)))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests[what+" "+kind.kind]++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: body}, nil
}

// counted returns how often each request was sent.
func (q *quietAPI) counted() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.requests)
}

// listOf is a list with one object.
func listOf(kind *resource) string {
	body := kind.body(target{family: publish.IPv4, step: publish.Step{Addresses: []string{"10.0.0.1"}, Port: 6443}})
	body["metadata"] = map[string]any{
		"name": serviceName, "namespace": serviceNamespace, "resourceVersion": "5", "labels": kind.labels,
		"annotations":   map[string]string{annotationRevision: "12", annotationStore: "s"},
		"managedFields": []any{map[string]any{"manager": kube.FieldManager, "fieldsV1": map[string]any{kind.field: map[string]any{}}}},
	}
	item, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "%sList", "metadata": {"resourceVersion": "5"}, "items": [%s]}`, kind.kind, item)
}

// While nothing changes, a Publisher has two watches, and asks for nothing else in ten
// minutes of a clock that leaps: a watch ends after five at the earliest. It does not ask
// etcd either: it has no client here.
func TestPublisher_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &quietAPI{requests: map[string]int{}}
		client, err := kube.New(&rest.Config{Host: "http://api", Transport: api}, "test")
		if err != nil {
			t.Fatal(err)
		}
		own := protocol.Endpoint{Address: "10.0.0.1", Port: 6443}
		nodes := event.New(protocol.Fleet{Revision: 12, Records: []*protocol.Record{{
			ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}},
			Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Endpoint: own},
		}}})
		p := New(Config{
			Node: "a", Own: own, API: client, Fleet: nodes, Store: event.New(fleet.StoreKey{ID: "s"}), Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		synctest.Wait()
		if got := p.State().Get(); got.Reason != string(publish.Published) {
			t.Errorf("got %+v, want it to be published", got)
		}
		const first = "map[GET EndpointSlice:1 GET Endpoints:1 WATCH EndpointSlice:1 WATCH Endpoints:1]"
		for minute := range 10 {
			if got := fmt.Sprint(api.counted()); minute < 5 && got != first {
				t.Fatalf("after %d minutes: got %s, want %s", minute, got, first)
			}
			// Others renew what they have in etcd: that changes nothing here.
			nodes.Set(protocol.Fleet{Revision: nodes.Get().Revision + 1, Records: nodes.Get().Records})
			<-time.After(time.Minute - time.Second)
			synctest.Wait()
		}
		for what, times := range api.counted() {
			if verb, _, _ := strings.Cut(what, " "); times > 2 || verb != "GET" && verb != "WATCH" {
				t.Errorf("got %s %d times, want each again only when the server ends the watch", what, times)
			}
		}
		cancel()
		run.Wait()
	})
}
