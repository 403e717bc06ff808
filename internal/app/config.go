package app

import (
	"time"

	"github.com/lockstep-dev/lockstep/cluster"
	"github.com/lockstep-dev/lockstep/cluster/backup"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config is what a sidecar is wired from. Package lockstep makes it from its
// Options, where each value is documented, checked and given its default; New
// checks nothing again.
type Config struct {
	NodeID       protocol.NodeID
	AdvertiseURL string // empty: derived from Listen

	Etcd       etcd.Config       // without Log, which New sets
	Embedded   *cluster.Embedded // nil: etcd runs elsewhere
	Snapshots  backup.Plan       // that this node saves by itself, if Embedded is not nil
	Kubeconfig string
	Services   string // directory; empty: this node runs none
	DataDir    string // where the roles are kept with Services, if Embedded is nil
	// NodeAddress is the IP of this node, for Services.
	NodeAddress string
	Bundle      string // directory, or bundle.BuiltinName

	Listen string // empty: no listener
	// AnonymousStatus: clients on other machines need no certificate.
	AnonymousStatus bool

	TLS     httpapi.TLS
	Reviews Reviews
	// Profiling serves /debug/pprof.
	Profiling bool
	OpenAPI   string
	Flags     []httpapi.Flag

	LeaseTTL         time.Duration
	ShutdownDelay    time.Duration
	ResyncInterval   time.Duration
	LeaderYieldAfter time.Duration
	// EtcdElectionTimeout is that of the etcd behind the kube-apiservers; 0: its
	// default.
	EtcdElectionTimeout time.Duration
	ExpireDeadNodes     time.Duration
	Ephemeral           bool
	ApplyConcurrency    int

	OverrideFile    string // empty: there is none
	AllowMassPrune  bool
	APIServerReadyz bool

	// KubernetesService: the sidecar writes the Service kubernetes.
	KubernetesService bool
	APIServerAddress  []string // empty: the server of the kubeconfig

	// Reconciler is used in place of the one that New makes for the kubeconfig, where
	// many sidecars are measured without an API. nil: that one is used.
	Reconciler Reconciler
}
