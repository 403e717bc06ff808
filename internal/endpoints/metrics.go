package endpoints

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
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
	in := metric.In(reg)
	return &metrics{
		state: metric.Gauges(in, "lockstep_endpoints_state",
			"1 for the reason why the Service kubernetes has its addresses; all 0 without --kubernetes-service. Published is right. For the others see kubernetesService in /status.",
			"reason", publish.Reasons()...),
		addresses: in.Gauge("lockstep_endpoints_addresses",
			"Addresses in the EndpointSlices of the Service kubernetes. It should be the number of nodes whose gate is open, in each family."),
		writes: metric.Counters(in, "lockstep_endpoints_writes_total",
			"Writes of the Service kubernetes. Changed: another sidecar was faster. Failed: see the rights of the kubeconfig's user, and the log.",
			"result", resultWritten, resultChanged, resultFailed),
		overwritten: in.Counter("lockstep_endpoints_overwritten_total",
			"How often another client replaced what Lockstep wrote into the Service kubernetes. If it grows, a kube-apiserver runs without --endpoint-reconciler-type=none."),
	}
}

func (m *metrics) show(s State) {
	metric.Choose(m.state, publish.Reasons(), protocol.Reason(s.Reason))
	m.addresses.Set(float64(len(s.Addresses)))
}
