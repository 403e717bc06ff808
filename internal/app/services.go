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
func (p *parts) wireRoles() error {
	var services []service.Service
	if p.cfg.Services != "" {
		var err error
		if services, err = service.Load(p.cfg.Services); err != nil {
			return err
		}
	}
	p.variables = variables.New(variables.Config{
		Node: p.id.node, Etcd: p.cfg.Etcd, Cluster: p.cluster, Embedded: p.cfg.Embedded != nil,
		Services: p.cfg.Services, DataDir: p.cfg.DataDir, NodeAddress: p.cfg.NodeAddress, Log: p.log,
	})
	p.turns = turns.New(turns.Config{
		Client: p.etcd, Node: p.id.node, BootID: p.id.bootID, Fleet: p.follower.Fleet(),
		Voters: p.cluster.Voters, Published: p.published, Log: p.log,
	})
	cfg := role.ServerConfig{
		Registrar: fleet.RegistrarConfig{
			Client: p.etcd, Local: p.bundle.Local(), Address: p.address, BootID: p.id.bootID, Consensus: p.cfg.Embedded.HasMember(),
			Presence: p.presence.Lease(), Fleet: p.follower.Fleet(), Store: p.follower.Store(),
			APIServer: p.apiserver.Other(), Log: p.log.With("worker", "registrar"), Trace: p.trace,
		},
		Gate: status.GateConfig{
			Store: p.store, Local: p.bundle.Local(), Contact: p.etcd.Contact(), Log: p.log.With("worker", "gate"),
			Registerer: p.registry, Trace: p.trace, Beat: p.live.beatOf(gateLoop), Override: p.overrides.InForce(),
			APIServer: p.apiserver.Other(), Seen: p.journal.Verdict,
		},
		Presence: role.PresenceConfig{
			Run:  func(ctx context.Context) error { return p.presence.Run(ctx) },
			Show: func(ctx context.Context) error { return p.show.KeepPresence(ctx) }, Rest: p.presence.Rest,
		},
		// A sidecar whose node ID belongs to another sidecar must not campaign. So the election waits for
		// the presence (docs/protocol-nodes.md#duplicate-ids).
		Election: role.ElectionConfig{
			Run: after(p.presence.Lease(), func(ctx context.Context) error { return p.election.Run(ctx) }), Leads: p.leads,
		},
		APIServer:     role.APIServerConfig{Published: p.published, Refuses: p.apiserver.Refuses},
		Services:      role.ServicesConfig{Dir: p.cfg.Services, Loaded: services, Variables: p.variables.Variables(), Turns: p.turns},
		Roles:         role.RolesConfig{File: p.rolesFile(), Hold: p.variables.Hold},
		ShutdownDelay: p.cfg.ShutdownDelay, Supervisor: p.app.supervisor, Log: p.log,
	}
	if p.cfg.Embedded != nil {
		cfg.Cluster = p.cluster
	}
	p.roles = role.NewServer(cfg)
	p.app.roles = p.roles
	p.clocks = fleet.NewClocks(fleet.ClocksConfig{
		Own: p.id.node, Fleet: p.follower.Fleet(), Contact: p.etcd.Contact(), CordonOver: p.roles.Registrar().CordonOver(),
	})
	return nil
}

// rolesFile returns the file that keeps the roles; empty: none.
func (p *parts) rolesFile() string {
	switch {
	case p.cfg.Embedded != nil:
		return datadir.Layout(p.cfg.Embedded.DataDir).Roles()
	case p.cfg.Services != "":
		return datadir.Layout(p.cfg.DataDir).Roles()
	}
	return ""
}

// awaitServices waits until all services that use the CAs of etcd run with these CAs.
func (p *parts) awaitServices(ctx context.Context, trust string) error {
	return event.Until(ctx, p.roles.State(), func(now service.State) bool {
		return !slices.ContainsFunc(now.Services, func(st service.Status) bool { return !st.Trusts(trust) })
	})
}

// after returns a worker that waits until ready is not zero, and then runs.
func after[T comparable](ready *event.Value[T], run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var none T
		if err := event.Until(ctx, ready, func(now T) bool { return now != none }); err != nil {
			return err
		}
		return run(ctx)
	}
}
