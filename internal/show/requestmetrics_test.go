package show

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// Each request to the kube-apiserver is counted, and no answer adds a series.
func TestRequestMetrics(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	transport, err := kube.NewTransport(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	m := newRequestMetrics(registry)
	transport.Observe(m.answered)
	client, err := kube.New(transport.Config(), "test")
	if err != nil {
		t.Fatal(err)
	}
	before := testutil.CollectAndCount(m.requests)
	for i, answer := range []int{200, 201, 409, 503, 799} {
		code = answer
		_, _ = client.Do(t.Context(), kube.Request{Verb: []string{"GET", "PATCH"}[i%2], Path: "/x"})
	}
	server.Close()
	_, _ = client.Do(t.Context(), kube.Request{Verb: "PROPFIND", Path: "/x"})
	for labels, n := range map[[2]string]float64{
		{"get", "2xx"}: 1, {"patch", "2xx"}: 1, {"get", "4xx"}: 1, {"patch", "5xx"}: 1, {"get", "none"}: 1, {"other", "none"}: 1, {"put", "2xx"}: 0,
	} {
		if got := testutil.ToFloat64(m.requests.WithLabelValues(labels[0], labels[1])); got != n {
			t.Errorf("%v: got %v, want %v", labels, got, n)
		}
	}
	if now := testutil.CollectAndCount(m.requests); now != before {
		t.Errorf("%d series became %d", before, now)
	}
}
