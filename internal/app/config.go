package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config configures a sidecar. Package lockstep makes it from its Options, which document, check
// and default each value; New does not check again.
type Config struct {
	NodeID       protocol.NodeID
	AdvertiseURL string // empty: derived from Listen

	Etcd       etcd.Config       // without Log, which New sets
	Embedded   *cluster.Embedded // nil: etcd runs elsewhere
	Snapshots  backup.Plan       // the snapshots that this node saves by itself, if Embedded is not nil
	Kubeconfig string
	Services   string // the services directory; empty: this node runs no services
	DataDir    string // the directory that keeps the roles with Services, if Embedded is nil
	// NodeAddress is this node's IP address, for Services.
	NodeAddress string
	Bundle      string // directory, or bundle.BuiltinName

	Listen string // empty: no listener
	// AnonymousStatus: clients on other machines need no certificate.
	AnonymousStatus bool

	TLS     httpapi.TLS
	Reviews Reviews
	// Profiling serves /debug/pprof.
	Profiling bool
	// NoFleetLock: the paths of FleetLock are not found.
	NoFleetLock bool
	OpenAPI     string
	Flags       []httpapi.Flag
	// Registerer gets the sidecar's metrics besides /metrics. nil: none.
	Registerer prometheus.Registerer

	LeaseTTL         time.Duration
	ShutdownDelay    time.Duration
	ResyncInterval   time.Duration
	LeaderYieldAfter time.Duration
	// EtcdElectionTimeout is the election timeout of the etcd behind the kube-apiservers; 0: etcd's
	// default.
	EtcdElectionTimeout time.Duration
	ExpireDeadNodes     time.Duration
	Ephemeral           bool
	ApplyConcurrency    int

	OverrideFile    string // empty: overrides are off
	AllowMassPrune  bool
	APIServerReadyz bool

	// KubernetesService: the sidecar writes the Service kubernetes.
	KubernetesService bool
	APIServerAddress  []string // empty: the server of the kubeconfig

	// Reconciler replaces the reconciler that New creates for the kubeconfig, to measure many sidecars
	// without an API. nil: use New's.
	Reconciler Reconciler
}
