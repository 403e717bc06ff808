package show

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol"
)

// infoMetrics carry facts of this node as labels, with the value 1: queries join other metrics with
// them. Each exports one series at a time.
type infoMetrics struct {
	show         *Show
	node, status *prometheus.Desc
}

func newInfoMetrics(s *Show) infoMetrics {
	return infoMetrics{
		s,
		prometheus.NewDesc("lockstep_node_info",
			"1, with the release and the version of this node's bundle, and the ID of the store, which nodes of one control plane share; empty: etcd was not read yet. Join with it to group by control plane or release.",
			[]string{"node", "store", "release", "version"}, nil),
		prometheus.NewDesc("lockstep_status_info",
			"1, with the state, version and minimum of the status that this node read last; all empty: there is no valid one.",
			[]string{"state", "version", "minimum"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m infoMetrics) Describe(c chan<- *prometheus.Desc) { c <- m.node; c <- m.status }

// Collect implements prometheus.Collector.
func (m infoMetrics) Collect(c chan<- prometheus.Metric) {
	version := m.show.Local.Get().Version
	c <- prometheus.MustNewConstMetric(m.node, prometheus.GaugeValue, 1,
		string(m.show.Local.Get().ID), m.show.Store.Get().ID, version.Release.String(), version.String())
	var state, reconciler, minimum string
	if view := m.show.Status.Get().View; view.Kind == protocol.StatusPresent {
		state, reconciler, minimum = view.Status.State.String(), view.Status.Version.String(), view.Status.MinCompatible.String()
	}
	c <- prometheus.MustNewConstMetric(m.status, prometheus.GaugeValue, 1, state, reconciler, minimum)
}
