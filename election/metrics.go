package election

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

type metrics struct {
	state         *prometheus.GaugeVec
	withdrawn     prometheus.Gauge
	elections     prometheus.Counter
	ended         *prometheus.CounterVec
	steps         *prometheus.CounterVec
	blockers      prometheus.Gauge
	blocked       prometheus.Gauge // since when there are some
	waits         bool             // there are some; only Run's goroutine uses it
	guardFailures prometheus.Counter
	deletions     prometheus.Counter
}

// endReasons lists every reason for which a leadership can end, as labels.
var endReasons = []protocol.Reason{
	protocol.NewerAlive, protocol.RollingBack, protocol.NotController, protocol.Cordoned,
	protocol.APIUnreachable, protocol.ShuttingDown, lostReason,
}

// lostReason labels a leadership that the leader did not give up by itself.
const lostReason protocol.Reason = "Lost"

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg)
	return &metrics{
		state: metric.Gauges(in, "lockstep_election_state",
			"1 for this sidecar's state in the election. Exactly one of all sidecars should be leading.",
			"state", states...),
		withdrawn: in.Gauge("lockstep_election_withdrawn_timestamp_seconds",
			"Since when this sidecar has withdrawn, because it cannot use its kube-apiserver; 0: it has not. See election.message in /status."),
		elections: in.Counter("lockstep_election_elected_total",
			"How often this sidecar became the leader."),
		ended: metric.Counters(in, "lockstep_election_ended_total",
			"How often a leadership of this sidecar ended. Lost: its lease ended first; check etcd and the load of this machine.",
			"reason", endReasons...),
		steps: metric.Counters(in, "lockstep_election_steps_total",
			"Decisions of this leader. Compare the rates to see what it is doing.",
			"step", stepNames()...),
		blockers: in.Gauge("lockstep_election_blockers",
			"How many nodes this leader waits for. /status names them."),
		blocked: in.Gauge("lockstep_election_blocked_timestamp_seconds",
			"Since when this leader has been waiting for nodes; 0: it does not wait. If that is longer than your upgrades take, see blockers in /status."),
		guardFailures: in.Counter("lockstep_election_guard_failures_total",
			"How often this leader did not write a status because a fact behind the decision had changed. Some are normal during an upgrade."),
		deletions: in.Counter("lockstep_election_records_deleted_total",
			"Expired ephemeral records that this leader deleted. Nodes that stop gracefully delete their own: others were killed, or --shutdown-delay does not fit their grace period."),
	}
}

func stepNames() (out []string) {
	for k := protocol.StepResign; k <= protocol.StepWrite; k++ {
		out = append(out, k.String())
	}
	return out
}

// wait shows for how many nodes the leader waits, and since when.
func (m *metrics) wait(blockers int, now time.Time) {
	m.blockers.Set(float64(blockers))
	if waits := blockers > 0; waits != m.waits {
		m.waits = waits
		m.blocked.Set(0)
		if waits {
			m.blocked.Set(metric.Timestamp(now))
		}
	}
}

var states = []protocol.ElectionState{protocol.Ineligible, protocol.Campaigning, protocol.Leading, protocol.Withdrawn}

// show shows a state, and since when it lasts.
func (m *metrics) show(now protocol.ElectionState, since time.Time) {
	metric.Choose(m.state, states, now)
	m.withdrawn.Set(0)
	if now == protocol.Withdrawn {
		m.withdrawn.Set(metric.Timestamp(since))
	}
}
