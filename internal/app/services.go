package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
)

// wireRoles creates the server of this node's roles.
func (a *App) wireRoles(registry prometheus.Registerer) error {
	var services []service.Service
	if a.cfg.Services != "" {
		var err error
		if services, err = service.Load(a.cfg.Services); err != nil {
			return err
		}
	}
	a.variables = event.New(a.variablesAtFirst())
	consensus := a.cfg.Embedded.HasMember()
	a.roles = role.NewServer(role.ServerConfig{
		Node: a.id.node, First: protocol.Roles{Controller: true, Consensus: consensus}, Release: a.local.Get().Version.Release.String(),
		Registrar: fleet.RegistrarConfig{
			Client: a.etcd, Local: a.local, Address: a.address, BootID: a.id.bootID, Consensus: consensus,
			Presence: a.presence.Lease(), Fleet: a.follower.Fleet(), Store: a.follower.Store(),
			APIServer: a.otherAPIServer, Log: a.log.With("worker", "registrar"), Trace: a.trace,
		},
		Gate: status.GateConfig{
			Store: a.store, Local: a.local, Contact: a.etcd.Contact(), Log: a.log.With("worker", "gate"),
			Registerer: registry, Trace: a.trace, Beat: a.live.beatOf(gateLoop), Override: a.override,
			APIServer: a.otherAPIServer, Seen: a.journal.Verdict,
		},
		Shown: a.keepShown, Presence: func(ctx context.Context) error { return a.presence.Run(ctx) }, Enter: a.inCluster,
		// A sidecar whose node ID belongs to another sidecar must not campaign. So the election waits for
		// the presence (docs/protocol.md#duplicate-ids).
		Election: after(a.presence.Lease(), func(ctx context.Context) error { return a.election.Run(ctx) }),
		Dir:      a.cfg.Services, Services: services, Variables: a.variables, Turn: a.serviceTurn,
		File: a.rolesFile(), Hold: a.holdDirectory,
		Displayed: a.shownGate, Leads: a.leads, CloseGate: a.closeGate, Published: a.published,
		AwaitLeaving: a.awaitLeaving, Leave: a.leave,
		Member: a.member(), ShutdownDelay: a.cfg.ShutdownDelay, Supervisor: a.supervisor, Log: a.log,
	})
	a.registrar, a.gate = a.roles.Registrar(), a.roles.Gate()
	return nil
}

// member returns this node's etcd member; nil: etcd runs elsewhere.
func (a *App) member() role.Member {
	if a.cfg.Embedded == nil {
		return nil
	}
	return a.cluster
}

// variablesAtFirst returns the variables of services that are known at the start. If the sidecars
// run etcd, the servers are known only when the data directory contains a member.
func (a *App) variablesAtFirst() service.Variables {
	v := service.Variables{
		EtcdCAFile: a.cfg.Etcd.CAFile, EtcdCertFile: a.cfg.Etcd.CertFile, EtcdKeyFile: a.cfg.Etcd.KeyFile,
		NodeID: string(a.id.node),
	}
	if a.cfg.Embedded == nil {
		v.EtcdServers = a.etcdServers()
	}
	return v
}

func (a *App) etcdServers() string { return strings.Join(a.cfg.Etcd.Endpoints, ",") }

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

// lockTimeout is how long the data directory may be in use at the start, by a stopping sidecar.
const (
	lockTimeout = 15 * time.Second
	lockPause   = 100 * time.Millisecond
	// maxAddressPause is the longest time between two searches for this node's address.
	maxAddressPause = 2 * time.Second
)

// holdDirectory returns when the data directory, if there is one, belongs to this sidecar alone.
func (a *App) holdDirectory(ctx context.Context) error {
	if a.cfg.Embedded != nil {
		return a.awaitMember(ctx)
	}
	if a.cfg.Services == "" {
		return nil
	}
	for began := time.Now(); ; {
		dir, err := datadir.Lock(a.cfg.DataDir)
		if err == nil {
			a.lock = dir
			return a.awaitAddress(ctx)
		}
		if _, locked := errors.AsType[*datadir.LockedError](err); !locked || time.Since(began) > lockTimeout {
			return err
		}
		if !backoff.Sleep(ctx, lockPause) {
			return ctx.Err()
		}
	}
}

// awaitAddress returns when it finds the node address for services: the machine may start the
// sidecar before its network.
func (a *App) awaitAddress(ctx context.Context) error {
	pauses, told := backoff.Backoff{First: lockPause, Max: maxAddressPause}, ""
	for {
		own, err := nodeaddress.Find(a.cfg.NodeAddress)
		if err == nil {
			v := a.variables.Get()
			v.NodeAddress = own
			a.variables.Set(v)
			return nil
		}
		if problem := err.Error(); problem != told {
			a.log.Warn("services wait for the address of this node", "problem", problem)
			told = problem
		}
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// awaitMember returns when the cluster manager holds the data directory.
func (a *App) awaitMember(ctx context.Context) error {
	for {
		held, heldChanged := a.cluster.Held().Load()
		if held {
			a.useServers(a.cluster.Membership().Get())
			return nil
		}
		if !event.Wait(ctx, heldChanged) {
			return ctx.Err()
		}
	}
}

// followServers keeps the etcd servers in the variables of services up to date while this node
// becomes a member or leaves.
func (a *App) followServers(ctx context.Context) error {
	for {
		now, membershipChanged := a.cluster.Membership().Load()
		a.useServers(now)
		if !event.Wait(ctx, membershipChanged) {
			return ctx.Err()
		}
	}
}

func (a *App) useServers(now cluster.Membership) {
	v := a.variables.Get()
	v.EtcdServers, v.NodeAddress, v.EtcdTrust = serversFor(v.EtcdServers, now), now.Address, now.Trust
	if missing := missingServers(v.EtcdServers, now); len(missing) > 0 {
		a.log.Warn("services use servers of etcd that are no members any more; cordon this node and restart its sidecar: they start with all members then",
			"missing", missing, "used", v.EtcdServers, "members", now.Servers)
	}
	if v != a.variables.Get() {
		a.variables.Set(v)
	}
}

// awaitServices waits until all services that use the CAs of etcd run with these CAs.
func (a *App) awaitServices(ctx context.Context, trust string) error {
	for {
		now, stateChanged := a.roles.State().Load()
		if !slices.ContainsFunc(now.Services, func(st service.Status) bool { return !st.Trusts(trust) }) {
			return nil
		}
		if !event.Wait(ctx, stateChanged) {
			return ctx.Err()
		}
	}
}

// serversFor returns the etcd servers for services: this node's own member while it exists, and
// otherwise all other members. A change restarts the services that use them, so the old servers
// stay as long as one of them is still a member.
func serversFor(was string, now cluster.Membership) string {
	if now.Local {
		return now.Servers[0]
	}
	for server := range strings.SplitSeq(was, ",") {
		if slices.Contains(now.Servers, server) {
			return was
		}
	}
	return strings.Join(now.Servers, ",")
}

// missingServers returns the used servers that are no longer members.
func missingServers(used string, now cluster.Membership) []string {
	if now.Local || used == "" { // services use only this node's member, or none is known yet
		return nil
	}
	return slices.DeleteFunc(strings.Split(used, ","), func(server string) bool { return slices.Contains(now.Servers, server) })
}

// unlock unlocks the data directory if holdDirectory locked it.
func (a *App) unlock() error {
	if a.lock == nil {
		return nil
	}
	return a.lock.Close()
}

// localRoles returns the roles by which this sidecar starts and stops services.
func (a *App) localRoles() report.Roles {
	local := a.roles.Local().Get()
	return report.Roles{Local: local.Roles.Names(), Source: string(local.Source), Since: report.At(local.Since)}
}

// servicesNow lists the services of the directory, and those still running whose file was deleted.
func (a *App) servicesNow() []report.Service {
	var out []report.Service
	listed := map[string]bool{}
	for _, st := range a.roles.State().Get().Services {
		listed[st.Name] = true
		out = append(out, st.Report())
	}
	for _, svc := range a.roles.Loaded().Get() {
		if !listed[svc.Name] {
			out = append(out, svc.Report())
		}
	}
	return out
}
