package election

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol"
)

type metrics struct {
	state     *prometheus.GaugeVec
	elections prometheus.Counter
	resigned  *prometheus.CounterVec
	steps     *prometheus.CounterVec
	blockers  prometheus.Gauge
	guards    prometheus.Counter
}

// endReasons are why a leadership can end, as labels.
var endReasons = []protocol.Reason{
	protocol.NewerAlive, protocol.NotController, protocol.APIUnreachable, protocol.ShuttingDown, lostReason,
}

// lostReason labels a leadership that was lost, not given up.
const lostReason protocol.Reason = "Lost"

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_election_state",
			Help: "1 for the part this sidecar plays in the election, 0 for all others. Over all sidecars exactly one should lead.",
		}, []string{"state"}),
		elections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_election_elected_total",
			Help: "How often this sidecar became the leader.",
		}),
		resigned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_election_ended_total",
			Help: "How often a leadership of this sidecar ended, by reason. Lost means that the lease ran out: look at etcd and at this machine's load.",
		}, []string{"reason"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_election_steps_total",
			Help: "Decisions of this leader, by step.",
		}, []string{"step"}),
		blockers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_election_blockers",
			Help: "How many nodes hold this leader back. /status names them and says what to do.",
		}),
		guards: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_election_guard_failures_total",
			Help: "How often a status was not written because what the decision rested on had changed. Some are normal during an upgrade.",
		}),
	}
	for _, s := range states {
		m.state.WithLabelValues(string(s)).Set(0)
	}
	for _, r := range endReasons {
		m.resigned.WithLabelValues(string(r))
	}
	for k := protocol.StepResign; k <= protocol.StepWrite; k++ {
		m.steps.WithLabelValues(k.String())
	}
	if reg != nil {
		reg.MustRegister(m.state, m.elections, m.resigned, m.steps, m.blockers, m.guards)
	}
	return m
}

var states = []protocol.ElectionState{protocol.Ineligible, protocol.Campaigning, protocol.Leading, protocol.Withdrawn}

func (m *metrics) show(now protocol.ElectionState) {
	for _, s := range states {
		m.state.WithLabelValues(string(s)).Set(0)
	}
	m.state.WithLabelValues(string(now)).Set(1)
}
