package endpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// writtenAPI accepts each write, and keeps the addresses in it.
type writtenAPI struct {
	changed string   // the object as another sidecar has written it: each write is refused; empty: none is
	written []string // "Kind address address", in the order of the writes
}

func (a *writtenAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.changed != "" {
		code, answer := http.StatusConflict, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}`
		if req.Method == http.MethodGet {
			code, answer = http.StatusOK, a.changed
		}
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: io.NopCloser(strings.NewReader(answer))}, nil
	}
	if req.Method != http.MethodPost && req.Method != http.MethodPatch {
		return nil, fmt.Errorf("unexpected request: %s %s", req.Method, req.URL)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	kind := sliceResource
	if strings.Contains(req.URL.Path, "/endpoints") && !strings.Contains(req.URL.Path, "/endpointslices") {
		kind = endpointsResource
	}
	var sent wire
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	addresses, _, _ := kind.fields(sent)
	a.written = append(a.written, kind.kind+" "+strings.Join(addresses, " "))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
}

// What a sidecar observes of the fleet is late. Before it writes, it decides again from a
// snapshot: a node that has left since is not published, and one that has come is.
func TestAttempt_snapshot(t *testing.T) {
	server := etcdtest.New(t)
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	raw, keys := server.Client(t), keyspace.Under(client.Prefix())
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := raw.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	message := func(m proto.Message) []byte {
		t.Helper()
		out, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const store = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
	put(keys.Store(), message(&lockstepv1.Store{Id: store}))
	observedFleet := protocol.Fleet{Revision: 1}
	for id, address := range map[protocol.NodeID]string{"a": "10.0.0.1", "left": "10.0.0.2", "new": "10.0.0.3"} {
		node := protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Serves: true}
		if id != "new" {
			observedFleet.Records = append(observedFleet.Records, &protocol.Record{
				ID: id, Alive: true, Node: node, Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Endpoint: protocol.Endpoint{Address: address, Port: 6443}},
			})
		}
		put(keys.Node(id), fleet.Encode(node))
		if id != "left" {
			put(keys.Presence(id), message(&lockstepv1.Presence{
				Ready: true, Reason: string(protocol.Ready), Endpoint: &lockstepv1.Endpoint{Addresses: []string{address}, Port: 6443},
			}))
		}
	}
	api := &writtenAPI{}
	kubeClient, err := kube.New(&rest.Config{Host: "http://api", Transport: api}, "test")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{
		Node: "a", API: kubeClient, Etcd: client, Fleet: event.New(observedFleet), Store: event.New(fleet.StoreKey{ID: store}), Log: slog.New(slog.DiscardHandler),
	})
	if err := p.attempt(t.Context(), observed{slicesKnown: true, endpointsKnown: true, slices: map[string]object{}}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"EndpointSlice 10.0.0.1 10.0.0.3", "Endpoints 10.0.0.1 10.0.0.3"}; !slices.Equal(api.written, want) {
		t.Errorf("got %q, want %q", api.written, want)
	}
	// What was written may be observed late, or changed again at once: a round after a write waits.
	began := time.Now()
	p.due, api.written = began.Add(-time.Hour), nil
	seen := observed{slicesKnown: true, endpointsKnown: true, slices: map[string]object{}}
	if wait := p.round(t.Context(), observedFleet, seen); wait <= 0 || !p.due.After(began) {
		t.Errorf("after %d writes, it waits %s, until %s", len(api.written), wait, p.due)
	}
	p.due = time.Now().Add(time.Hour) // a busy machine may need longer than the first pause for the next rounds
	for range 2 {
		if wait := p.round(t.Context(), observedFleet, seen); wait <= 0 {
			t.Errorf("after %d writes, it waits %s", len(api.written), wait)
		}
	}
	if len(api.written) != 2 {
		t.Errorf("it wrote %q", api.written)
	}
}

// Another sidecar was faster: that is no failure. The object is read again, and the next round decides.
func TestWrite_changed(t *testing.T) {
	api := &writtenAPI{changed: `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "kubernetes", "resourceVersion": "12"}, "addressType": "IPv4"}`}
	client, err := kube.New(&rest.Config{Host: "http://api", Transport: api}, "test")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{API: client, Log: slog.New(slog.DiscardHandler)})
	to := target{kind: sliceResource, name: serviceName, family: publish.IPv4, now: object{version: "7", family: publish.IPv4}, step: publish.Step{Addresses: []string{"10.0.0.1"}, Port: 6443}}
	if err := p.write(t.Context(), to, "s"); err != nil {
		t.Errorf("got %v", err)
	}
	if got := p.seen.Get().object(sliceResource, serviceName).version; got != "12" {
		t.Errorf("got the version %q, want what the other one has written", got)
	}
}

// An object that a list does not have was deleted.
func TestPublisher_listWithoutObject(t *testing.T) {
	for _, kind := range []*resource{sliceResource, endpointsResource} {
		p := New(Config{})
		p.accept(kind, object{name: serviceName, version: "7"})
		p.replace(kind, kube.List{})
		if got := p.seen.Get(); got.object(kind, serviceName).version != "" || kind == endpointsResource && !got.endpointsKnown || kind == sliceResource && !got.slicesKnown {
			t.Errorf("%s: got %+v", kind.kind, got)
		}
	}
}

// A change that another sidecar has written ends the wait: the next change waits for its turn again.
func TestRound_writtenByAnother(t *testing.T) {
	f := protocol.Fleet{Revision: 9, Records: []*protocol.Record{{
		ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}},
		Presence: protocol.Presence{Ready: true, Endpoint: protocol.Endpoint{Address: "10.0.0.1", Port: 6443}},
	}}}
	p := New(Config{Node: "b", Fleet: event.New(f), Store: event.New(fleet.StoreKey{ID: "s"}), Log: slog.New(slog.DiscardHandler)})
	seen := observed{slicesKnown: true, endpointsKnown: true, slices: map[string]object{}}
	if wait := p.round(t.Context(), f, seen); wait <= 0 || p.due.IsZero() {
		t.Errorf("it is the turn of another one: got %s", wait)
	}
	o := object{version: "1", family: publish.IPv4, Object: publish.Object{
		Known: true, Addresses: []string{"10.0.0.1"}, Port: 6443, Revision: 5, Store: "s", Own: true, Complete: true,
	}}
	seen.slices[serviceName], seen.endpoints = o, o
	if wait := p.round(t.Context(), f, seen); wait != 0 || !p.due.IsZero() {
		t.Errorf("it was written: got %s, due %s", wait, p.due)
	}
}
