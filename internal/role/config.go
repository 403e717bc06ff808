package role

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/status"
)

// ServerConfig configures a Server. All fields are required, unless their comments say otherwise.
type ServerConfig struct {
	// Registrar and Gate are complete except for the fields that NewServer sets: Services and First,
	// Registration and Withheld.
	Registrar fleet.RegistrarConfig
	Gate      status.GateConfig
	Presence  PresenceConfig
	Election  ElectionConfig
	APIServer APIServerConfig
	Services  ServicesConfig
	Roles     RolesConfig
	Cluster   Cluster // nil: etcd runs elsewhere

	ShutdownDelay time.Duration
	Supervisor    *supervise.Supervisor
	Log           *slog.Logger // without the attribute worker, which each part adds
}

// PresenceConfig is this node's presence.
type PresenceConfig struct {
	// Run keeps the presence, and Show publishes gate and election in it.
	Run, Show supervise.Worker
	Rest      func() // ends its writes
}

// ElectionConfig is this node's part in the election.
type ElectionConfig struct {
	// Run takes part in the election. The node ends at any error except its context's own error.
	Run supervise.Worker
	// Leads is whether this node may still hold the leader's key.
	Leads *event.Value[bool]
}

// APIServerConfig reports how clients reach this node's kube-apiserver.
type APIServerConfig struct {
	// Published reports whether this node's address may still leave the Service kubernetes. The
	// channel is closed when the answer may have changed.
	Published func() (published bool, changed <-chan struct{})
	// Refuses tries to connect, and reports whether no program accepts connections.
	Refuses func(context.Context) bool
}

// ServicesConfig is the services directory.
type ServicesConfig struct {
	// Dir is the directory, already loaded into Loaded; empty: this node runs no services.
	Dir    string
	Loaded []service.Service
	// Variables are the values for variables in services. While EtcdServers is empty they are not
	// known yet.
	Variables *event.Value[service.Variables]
	Turns     Turns // nil: this node runs no services
}

// RolesConfig is the file that keeps the roles of this node.
type RolesConfig struct {
	File string                      // empty: they are not kept
	Hold func(context.Context) error // returns when no other sidecar uses the directory of File
}

// Cluster is the etcd cluster that the sidecars run.
type Cluster interface {
	Member
	// InCluster returns a worker that waits until this node's cluster is reached, and then runs.
	InCluster(run func(context.Context) error) func(context.Context) error
}

// Turns takes and ends this node's turns for its services (docs/protocol-nodes.md#service-turns).
type Turns interface {
	// Out reports whether clients no longer use this node. The channel is closed when the answer may
	// have changed without a change of the fleet.
	Out(protocol.Fleet) (out bool, changed <-chan struct{})
	// Alone reports whether no other controller is registered.
	Alone(protocol.Fleet) bool
	// TakeForServices waits for a turn, and takes it. pending names the services, and out returns how
	// long this node has not served.
	TakeForServices(ctx context.Context, pending string, out func() time.Duration)
	// StepOfServices carries out an action for the turn t of services. It can be called again.
	StepOfServices(ctx context.Context, action nodeservices.TurnAction, t protocol.Turn)
}
