// Package show collects the state of a sidecar for people: the snapshot that package httpapi renders, the
// warnings, the metrics, what its presence shows to other nodes, and what its history keeps. It owns what is
// shown and since when, and decides nothing else: it reads the event values of Facts, whose owners write them.
//
// KeepSnapshot, KeepWarnings, KeepPresence, KeepHistory and LogDigests block until their context ends,
// and start no goroutine.
package show

import (
	"log/slog"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/apiserver"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/endpoints"
	"github.com/lockstep-dev/lockstep/internal/etcdhealth"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/internal/variables"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
)

// Facts are what is known now. All are required, unless their comments say otherwise.
type Facts struct {
	// This node.
	Local           *event.Value[protocol.Local]
	BundleFault     *event.Value[error]
	Roles           *event.Value[role.Local]
	Services        *event.Value[[]service.Service] // of the directory
	ServicesProblem *event.Value[string]
	ServiceState    *event.Value[service.State]
	Servers         *event.Value[variables.Missing] // of etcd, for services
	Withheld        *event.Value[string]
	APIServer       *apiserver.Follower
	Endpoints       *event.Value[endpoints.State] // nil: this sidecar does not write the Service kubernetes
	Registration    *event.Value[protocol.Registration]
	Verdict         *event.Value[status.Verdict]
	Override        *event.Value[protocol.Override]
	OverrideProblem *event.Value[string]
	Election        *event.Value[election.State]
	Reconcile       *event.Value[report.Reconcile]
	Failures        *event.Value[[]supervise.Failure] // of this sidecar's workers

	// The files of this node.
	Kubeconfig          *event.Value[[]string] // its problems
	Certificates        *event.Value[[]report.Certificate]
	CertificateWarnings *event.Value[[]string]

	// Etcd, and what is in it.
	Contact     *event.Value[etcd.Contact]
	EtcdProblem *event.Value[etcdhealth.Problem]
	EtcdFaults  *event.Value[[]string]
	Cluster     *cluster.Manager
	Schedule    *event.Value[backup.ScheduleState] // of snapshots
	Status      *event.Value[status.Observed]
	Leader      *event.Value[election.Leader]
	Fleet       *event.Value[protocol.Fleet]
	Store       *event.Value[fleet.StoreKey]
	Rival       *event.Value[fleet.Rival]
	Clocks      *event.Value[fleet.ClockState]
}

// Config configures a Show. All fields are required, unless their comments say otherwise.
type Config struct {
	Address      string // of the listener, for other machines; empty: unknown
	Bundle       string // directory, or bundle.BuiltinName
	OverrideFile string // empty: overrides are off
	Etcd         etcd.Config
	DataDir      string            // of this node's etcd member; empty: etcd runs elsewhere
	Endpoint     protocol.Endpoint // the zero Endpoint: this sidecar does not write the Service kubernetes
	Log          *slog.Logger
	Facts        Facts

	// Rendered acknowledges the verdict in a snapshot, when /readyz shows it.
	Rendered func(status.Verdict)
	// Beat is called in each round of KeepSnapshot. The channel that it returns begins the next round.
	Beat func() <-chan struct{}
	// Presence is set by KeepPresence.
	Presence *event.Value[fleet.Shown]
	// Observe passes the facts of each snapshot to the history.
	Observe func(history.Facts)
}

// Show collects the state of a sidecar.
type Show struct {
	Facts
	cfg      Config
	warned   *event.Value[warned]
	seen     *event.Value[sightings]
	snapshot *event.Value[httpapi.Snapshot]
}

// New returns a Show with a snapshot of now.
func New(cfg Config) *Show {
	if cfg.Facts.Endpoints == nil {
		cfg.Facts.Endpoints = event.New(endpoints.State{})
	}
	s := &Show{Facts: cfg.Facts, cfg: cfg, warned: event.New(warned{}), seen: event.New(sightings{})}
	s.snapshot = event.New(s.now())
	return s
}

// Snapshot follows the newest snapshot.
func (s *Show) Snapshot() *event.Value[httpapi.Snapshot] { return s.snapshot }
