package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// otherServer is an aggregated API with the kind Widget, as kube-apiserver forwards
// requests to it.
type otherServer struct {
	mu     sync.Mutex                // mu guards what follows
	stored map[string]map[string]any // by name
	writes int
}

func (s *otherServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path, found := strings.CutPrefix(req.URL.Path, "/apis/agg.test/v1")
	name := strings.Trim(strings.TrimPrefix(path, "/widgets"), "/")
	var reply any
	switch {
	case !found:
		reply = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}}
	case path == "":
		reply = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "agg.test/v1", "resources": []any{
			map[string]any{"name": "widgets", "kind": "Widget", "namespaced": false, "verbs": []string{"get", "list", "create", "patch", "delete"}},
		}}
	case req.Method == http.MethodPost || req.Method == http.MethodPatch:
		reply = s.write(req, name)
	case name == "":
		items := []any{}
		for _, obj := range s.stored {
			items = append(items, obj)
		}
		reply = map[string]any{"kind": "WidgetList", "apiVersion": "agg.test/v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.writes + 1)}, "items": items}
	case s.stored[name] != nil:
		reply = s.stored[name]
	default:
		w.WriteHeader(http.StatusNotFound)
		reply = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// write stores an object, with what a server adds.
func (s *otherServer) write(req *http.Request, name string) any {
	var obj map[string]any
	if err := json.NewDecoder(req.Body).Decode(&obj); err != nil {
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": err.Error(), "code": http.StatusBadRequest}
	}
	metadata, _ := obj["metadata"].(map[string]any)
	if name == "" {
		name, _ = metadata["name"].(string)
	}
	s.writes++
	metadata["uid"], metadata["resourceVersion"] = "uid-"+name, fmt.Sprint(s.writes)
	s.stored[name] = obj
	return obj
}

// size returns the size of the Widget "w"; 0: it does not exist.
func (s *otherServer) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, _ := s.stored["w"]["size"].(float64)
	return int(size)
}

// aggregate makes kube-apiserver forward the requests for agg.test/v1 to a server in
// this process.
func (r *rig) aggregate() *otherServer {
	r.t.Helper()
	other := &otherServer{stored: map[string]map[string]any{}}
	server := httptest.NewTLSServer(other)
	r.t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	clusterServices := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	apiServices := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	r.create(clusterServices, r.ns, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"other"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	r.create(apiServices, "", fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.agg.test"},
		"spec":{"group":"agg.test","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,
		"service":{"namespace":"NS","name":"other","port":%s}}}`, u.Port()))
	r.t.Cleanup(func() {
		ctx := context.WithoutCancel(r.t.Context()) // it has ended
		if err := r.api.Resource(apiServices).Delete(ctx, "v1.agg.test", metav1.DeleteOptions{}); err != nil {
			r.t.Error(err)
		}
	})
	widgets := schema.GroupVersionResource{Group: "agg.test", Version: "v1", Resource: "widgets"}
	await(r.t, "the aggregated API", func() error {
		_, err := r.api.Resource(widgets).Get(r.t.Context(), "none", getOptions)
		return wantNotFound(err)
	})
	return other
}

func TestReconcile_aggregatedAPI(t *testing.T) {
	r := newRig(t)
	other := r.aggregate()
	sized := func(size int) string {
		return fmt.Sprintf("apiVersion: agg.test/v1\nkind: Widget\nmetadata: {name: w}\nsize: %d\n", size)
	}
	wantSize := func(want int) {
		t.Helper()
		if got := other.size(); got != want {
			t.Errorf("got size %d, want %d", got, want)
		}
	}
	t.Run("a first bundle may have an A", func(t *testing.T) {
		r.useHeader("release: 1.1.0\nminApiserverRelease: 1.0.0", sized(1), configMap("a"))
		r.mustComplete()
		wantSize(1)
	})
	t.Run("a bundle that does not raise A changes the object", func(t *testing.T) {
		r.useHeader("release: 1.2.0\nminApiserverRelease: 1.0.0", sized(2), configMap("a"))
		r.mustComplete()
		wantSize(2)
	})
	t.Run("a bundle that raises A does not, and is not DONE", func(t *testing.T) {
		r.useHeader("release: 1.3.0\nminApiserverRelease: 1.3.0", sized(3), configMap("a", `k: "3"`))
		for range 2 { // a later pass does not forget why
			r.restart()
			out, err := r.pass()
			if err != nil || out.Complete {
				t.Errorf("got %+v, %v, want an incomplete pass", out, err)
			}
			wantSize(2)
			failures := r.report().Failures
			if len(failures) != 1 || !strings.Contains(failures[0].Message, "Service "+r.ns+"/other handles it") {
				t.Errorf("got %+v", failures)
			}
		}
		if got := r.get(configMaps, r.ns, "a").Object["data"]; fmt.Sprint(got) != "map[k:3]" {
			t.Errorf("got %v, want the other objects to be written", got)
		}
	})
	t.Run("a bundle that raises A and leaves the object as it was is DONE", func(t *testing.T) {
		r.useHeader("release: 1.3.0\nminApiserverRelease: 1.3.0", sized(2), configMap("a", `k: "3"`))
		r.mustComplete()
		wantSize(2)
	})
	t.Run("without the right to find out, A cannot be raised", func(t *testing.T) {
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/apiservices/") {
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
			}
			return next.RoundTrip(req)
		})
		r.useHeader("release: 1.4.0\nminApiserverRelease: 1.4.0", sized(4), configMap("a", `k: "3"`))
		out, err := r.pass()
		failures := r.report().Failures
		if err != nil || out.Complete || len(failures) != 1 || !strings.Contains(failures[0].Message, "right to get apiservices") {
			t.Errorf("got %+v, %v, %+v", out, err, failures)
		}
		wantSize(2)
	})
}
