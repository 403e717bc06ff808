package endpoints

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// parentAPI answers with a parent, and counts how often it was read.
type parentAPI struct {
	store string // empty: there is no parent
	reads int
}

func (a *parentAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/api/v1/namespaces/kube-system/configmaps/lockstep" {
		return nil, fmt.Errorf("unexpected request: %s %s", req.Method, req.URL)
	}
	a.reads++
	code, body := http.StatusOK, fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lockstep", "annotations": {"lockstep.dev/store": %q}}}`, a.store)
	if a.store == "" {
		code, body = http.StatusNotFound, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}`
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// The parent is read only if an object has the ID of another store, and again when a wait
// ends.
func TestPublisher_parent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &parentAPI{}
		client, err := kube.New(&rest.Config{Host: "http://api", Transport: api}, "test")
		if err != nil {
			t.Fatal(err)
		}
		p := New(Config{API: client, Parent: Parent{"kube-system", "lockstep"}, Log: slog.New(slog.DiscardHandler)})
		f := protocol.Fleet{Revision: 9, Records: []*protocol.Record{{
			ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}},
			Presence: protocol.Presence{Ready: true, Endpoint: protocol.Endpoint{Address: "10.0.0.1", Port: 6443}},
		}}}
		seen := observed{slicesKnown: true, endpointsKnown: true, slices: map[string]object{}}
		reasonWith := func(store string) protocol.Reason {
			o := object{version: "1", family: publish.IPv4, Object: publish.Object{
				Known: true, Addresses: []string{"10.0.0.1"}, Port: 6443, Revision: 5, Store: store, Own: true, Complete: true,
			}}
			seen.slices[serviceName], seen.endpoints = o, o
			p.readParent(t.Context(), "s", seen)
			return p.plan(f, "s", seen).worst().Reason
		}
		for _, step := range []struct {
			name, annotation, parent string
			want                     protocol.Reason
			reads                    int
		}{
			{"all is as it was", "s", "s", publish.Published, 0},
			{"a client set the annotation", "forged", "s", publish.Pending, 1},
			{"it is still there, a moment later", "forged", "s", publish.Pending, 1},
			{"it was repaired", "s", "s", publish.Published, 1},
			{"the parent has that ID", "t", "t", protocol.OtherStore, 2},
			{"the parent has this store's ID now, and was read a moment ago", "t", "s", protocol.OtherStore, 2},
			{"the wait is over", "t", "s", publish.Pending, 3},
			{"there is no parent", "t", "", protocol.OtherStore, 4},
		} {
			if api.store = step.parent; strings.HasPrefix(step.name, "the wait") || step.parent == "" {
				<-time.After(publish.ParentRetry)
			}
			if got := reasonWith(step.annotation); got != step.want || api.reads != step.reads {
				t.Errorf("%s: got %s after %d reads, want %s after %d", step.name, got, api.reads, step.want, step.reads)
			}
		}
	})
}
