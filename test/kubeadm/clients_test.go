package kubeadm

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestClients_dropped: a request that etcd drops counts as failed, except for writes while an
// etcd is restarted.
func TestClients_dropped(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "etcdserver: request timed out", http.StatusInternalServerError)
	}))
	t.Cleanup(api.Close)
	for _, test := range []struct {
		etcdRestarts, write bool
		dropped             int
	}{{true, true, 1}, {true, false, 0}, {false, true, 0}, {false, false, 0}} {
		c := &clients{name: "test", cfg: &rest.Config{Host: api.URL}}
		c.etcdRestarts.Store(test.etcdRestarts)
		c.send(t.Context(), api.Client(), test.write)
		if len(c.dropped) != test.dropped || len(c.failed) != 1-test.dropped || c.requests != 1 {
			t.Errorf("%+v: got %s", test, c)
		}
	}
}
