package show

import "github.com/prometheus/client_golang/prometheus"

// serviceMetrics are the metrics of this node's services. Their label is the name of a service in
// --services, which contains at most a hundred files.
type serviceMetrics struct {
	show            *Show
	ready, restarts *prometheus.Desc
	rejected        *prometheus.Desc
}

func newServiceMetrics(s *Show) serviceMetrics {
	return serviceMetrics{s,
		prometheus.NewDesc("lockstep_service_ready",
			"1 while the service of this node is ready. If it stays 0, see NOT READY in sidecar status.",
			[]string{"service"}, nil),
		prometheus.NewDesc("lockstep_service_restarts_total",
			"How often the service ended by itself and was started again, since its file changed.",
			[]string{"service"}, nil),
		prometheus.NewDesc("lockstep_services_rejected",
			"1 while the directory of --services is rejected. The last valid services stay in use, and a restart would fail. See the warnings in /status.",
			nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m serviceMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.ready
	c <- m.restarts
	c <- m.rejected
}

// Collect implements prometheus.Collector.
func (m serviceMetrics) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.MustNewConstMetric(m.rejected, prometheus.GaugeValue, boolean[m.show.ServicesProblem.Get() != ""])
	for _, st := range m.show.servicesNow() { // including services that were not started yet
		c <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, boolean[st.Ready], st.Name)
		c <- prometheus.MustNewConstMetric(m.restarts, prometheus.CounterValue, float64(st.Restarts), st.Name)
	}
}
