package app

import (
	"context"
	"slices"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/turns"
	"github.com/lockstep-dev/lockstep/internal/variables"
	"github.com/lockstep-dev/lockstep/status"
)

// wireRoles creates the server of this node's roles.
func (a *App) wireRoles() error {
	var services []service.Service
	if a.cfg.Services != "" {
		var err error
		if services, err = service.Load(a.cfg.Services); err != nil {
			return err
		}
	}
	a.variables = variables.New(variables.Config{
		Node: a.id.node, Etcd: a.cfg.Etcd, Cluster: a.cluster, Embedded: a.cfg.Embedded != nil,
		Services: a.cfg.Services, DataDir: a.cfg.DataDir, NodeAddress: a.cfg.NodeAddress, Log: a.log,
	})
	a.turns = turns.New(turns.Config{
		Client: a.etcd, Node: a.id.node, BootID: a.id.bootID, Fleet: a.follower.Fleet(),
		Voters: a.cluster.Voters, Published: a.published, Log: a.log,
	})
	cfg := role.ServerConfig{
		Registrar: fleet.RegistrarConfig{
			Client: a.etcd, Local: a.bundle.Local(), Address: a.address, BootID: a.id.bootID, Consensus: a.cfg.Embedded.HasMember(),
			Presence: a.presence.Lease(), Fleet: a.follower.Fleet(), Store: a.follower.Store(),
			APIServer: a.apiserver.Other(), Log: a.log.With("worker", "registrar"), Trace: a.trace,
		},
		Gate: status.GateConfig{
			Store: a.store, Local: a.bundle.Local(), Contact: a.etcd.Contact(), Log: a.log.With("worker", "gate"),
			Registerer: a.registry, Trace: a.trace, Beat: a.live.beatOf(gateLoop), Override: a.overrides.InForce(),
			APIServer: a.apiserver.Other(), Seen: a.journal.Verdict,
		},
		Presence: role.PresenceConfig{
			Run:  func(ctx context.Context) error { return a.presence.Run(ctx) },
			Show: func(ctx context.Context) error { return a.show.KeepPresence(ctx) }, Rest: a.presence.Rest,
		},
		Election:      role.ElectionConfig{Run: a.runElection, Leads: a.leads},
		APIServer:     role.APIServerConfig{Published: a.published, Refuses: a.apiserver.Refuses},
		Services:      role.ServicesConfig{Dir: a.cfg.Services, Loaded: services, Variables: a.variables.Variables(), Turns: a.turns},
		Roles:         role.RolesConfig{File: a.rolesFile(), Hold: a.variables.Hold},
		ShutdownDelay: a.cfg.ShutdownDelay, Supervisor: a.supervisor, Log: a.log,
	}
	if a.cfg.Embedded != nil {
		cfg.Cluster = a.cluster
	}
	a.roles = role.NewServer(cfg)
	a.clocks = fleet.NewClocks(fleet.ClocksConfig{
		Own: a.id.node, Fleet: a.follower.Fleet(), Contact: a.etcd.Contact(), CordonOver: a.roles.Registrar().CordonOver(),
	})
	return nil
}

// rolesFile returns the file that keeps the roles; empty: none.
func (a *App) rolesFile() string {
	switch {
	case a.cfg.Embedded != nil:
		return datadir.Layout(a.cfg.Embedded.DataDir).Roles()
	case a.cfg.Services != "":
		return datadir.Layout(a.cfg.DataDir).Roles()
	}
	return ""
}

// awaitServices waits until all services that use the CAs of etcd run with these CAs.
func (a *App) awaitServices(ctx context.Context, trust string) error {
	return event.Until(ctx, a.roles.State(), func(now service.State) bool {
		return !slices.ContainsFunc(now.Services, func(st service.Status) bool { return !st.Trusts(trust) })
	})
}

// runElection waits for the presence: a sidecar whose node ID belongs to another sidecar must not campaign
// (docs/protocol-nodes.md#duplicate-ids).
func (a *App) runElection(ctx context.Context) error {
	for {
		lease, changed := a.presence.Lease().Load()
		if lease != 0 {
			return a.election.Run(ctx)
		}
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}
