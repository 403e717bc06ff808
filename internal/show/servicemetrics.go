package show

import "github.com/lockstep-dev/lockstep/internal/metric"

// registerServices adds the metrics of this node's services, including those that were not started yet. Their label is
// the name of a service in --services, which contains at most a hundred files.
func (s *Show) registerServices(in metric.Set) {
	in.GaugeSeries("lockstep_service_ready",
		"1 while the service of this node is ready. If it stays 0, see NOT READY in sidecar status.",
		[]string{"service"}, func(add metric.Series) {
			for _, st := range s.servicesNow() {
				add(metric.Bool(st.Ready), st.Name)
			}
		})
	in.CounterSeries("lockstep_service_restarts_total",
		"How often the service ended by itself and was started again, since its file changed.",
		[]string{"service"}, func(add metric.Series) {
			for _, st := range s.servicesNow() {
				add(float64(st.Restarts), st.Name)
			}
		})
	in.GaugeFunc("lockstep_services_rejected",
		"1 while the directory of --services is rejected. The last valid services stay in use, and a restart would fail. See the warnings in /status.",
		func() float64 { return metric.Bool(s.ServicesProblem.Get() != "") })
	in.GaugeFunc("lockstep_services_missing_servers",
		"Servers of etcd that services of this node use, and that left the cluster: see the warnings in /status.",
		func() float64 { return float64(s.missingServers().Servers) })
}
