package show

import (
	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

// registerInfo adds metrics that carry facts of this node as labels, with the value 1: queries join other metrics with
// them. Each exports one series at a time.
func (s *Show) registerInfo(in metric.Set) {
	in.GaugeSeries("lockstep_node_info",
		"1, with the release and the version of this node's bundle, and the ID of the store, which nodes of one control plane share; empty: etcd was not read yet. Join with it to group by control plane or release.",
		[]string{"node", "store", "release", "version"}, func(add metric.Series) {
			local := s.Local.Get()
			add(1, string(local.ID), s.Store.Get().ID, local.Version.Release.String(), local.Version.String())
		})
	in.GaugeSeries("lockstep_status_info",
		"1, with the state, version and minimum of the status that this node read last; all empty: there is no valid one.",
		[]string{"state", "version", "minimum"}, func(add metric.Series) {
			var state, reconciler, minimum string
			if view := s.Status.Get().View; view.Kind == protocol.StatusPresent {
				state, reconciler, minimum = view.Status.State.String(), view.Status.Version.String(), view.Status.MinCompatible.String()
			}
			add(1, state, reconciler, minimum)
		})
}
