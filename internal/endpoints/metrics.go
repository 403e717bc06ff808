package endpoints

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

type metrics struct {
	state       *prometheus.GaugeVec
	addresses   prometheus.Gauge
	writes      *prometheus.CounterVec
	overwritten prometheus.Counter
}

// The results of a write.
const (
	resultWritten = "Written"
	resultChanged = "Changed"
	resultFailed  = "Failed"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_endpoints_state",
			Help: "1 for the reason why the Service kubernetes has its addresses; all 0 without --kubernetes-service. Published is right. For the others see kubernetesService in /status.",
		}, []string{"reason"}),
		addresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_endpoints_addresses",
			Help: "Addresses in the EndpointSlices of the Service kubernetes. It should be the number of nodes whose gate is open, in each family.",
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_endpoints_writes_total",
			Help: "Writes of the Service kubernetes. Changed: another sidecar was faster. Failed: see the rights of the kubeconfig's user, and the log.",
		}, []string{"result"}),
		overwritten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_endpoints_overwritten_total",
			Help: "How often another client replaced what Lockstep wrote into the Service kubernetes. If it grows, a kube-apiserver runs without --endpoint-reconciler-type=none.",
		}),
	}
	for _, r := range publish.Reasons() {
		m.state.WithLabelValues(string(r)).Set(0)
	}
	for _, r := range []string{resultWritten, resultChanged, resultFailed} {
		m.writes.WithLabelValues(r)
	}
	if reg != nil {
		reg.MustRegister(m.state, m.addresses, m.writes, m.overwritten)
	}
	return m
}

func (m *metrics) show(s State) {
	for _, r := range publish.Reasons() {
		m.state.WithLabelValues(string(r)).Set(0)
	}
	m.state.WithLabelValues(s.Reason).Set(1)
	m.addresses.Set(float64(len(s.Addresses)))
}
