package show

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
	transport.Observe(RegisterRequests(registry))
	client, err := kube.New(transport.Config(), "test")
	if err != nil {
		t.Fatal(err)
	}
	before := len(requestsCounted(t, registry))
	for i, answer := range []int{200, 201, 409, 503, 799} {
		code = answer
		_, _ = client.Do(t.Context(), kube.Request{Verb: []string{"GET", "PATCH"}[i%2], Path: "/x"})
	}
	server.Close()
	_, _ = client.Do(t.Context(), kube.Request{Verb: "PROPFIND", Path: "/x"})
	counted := requestsCounted(t, registry)
	for labels, n := range map[[2]string]float64{
		{"get", "2xx"}: 1, {"patch", "2xx"}: 1, {"get", "4xx"}: 1, {"patch", "5xx"}: 1, {"get", "none"}: 1, {"other", "none"}: 1, {"put", "2xx"}: 0,
	} {
		if got := counted[labels]; got != n {
			t.Errorf("%v: got %v, want %v", labels, got, n)
		}
	}
	if now := len(counted); before == 0 || now != before {
		t.Errorf("%d series became %d", before, now)
	}
}

// requestsCounted returns the count of requests by verb and outcome.
func requestsCounted(t *testing.T, in prometheus.Gatherer) map[[2]string]float64 {
	t.Helper()
	all, err := in.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]float64{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "lockstep_app_apiserver_requests_total" { // its labels are sorted
				out[[2]string{m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue()}] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}
