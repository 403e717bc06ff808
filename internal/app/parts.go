package app

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/apiserver"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/etcdhealth"
	"github.com/lockstep-dev/lockstep/internal/events"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/internal/show"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// openFiles reads the bundle and the kubeconfig.
func (a *App) openFiles() error {
	b, err := bundle.Open(a.cfg.Bundle)
	if err != nil {
		return err
	}
	a.bundle = bundle.NewCurrent(a.cfg.Bundle, b, protocol.Local{
		ID: a.cfg.NodeID, ExpireAfter: a.cfg.ExpireDeadNodes, EtcdElectionTimeout: a.cfg.EtcdElectionTimeout, Ephemeral: a.cfg.Ephemeral,
	}, a.log)
	a.overrides = status.NewOverrides(a.cfg.OverrideFile, a.log)
	a.kubeconfig, err = kubeconfig.Open(a.cfg.Kubeconfig, kubeconfig.Local, a.log.With("worker", "kubeconfig"))
	if err != nil {
		return err
	}
	a.ends = append(a.ends, func() error { a.kubeconfig.Transport().CloseIdleConnections(); return nil })
	a.kubeconfig.Transport().Observe(show.RegisterRequests(a.registry))
	return nil
}

// openEtcd creates the client of etcd, and the manager of the cluster.
func (a *App) openEtcd() error {
	reach := a.cfg.Etcd
	reach.Log = a.log.With("worker", "etcd")
	var err error
	if a.etcd, err = etcd.NewClient(reach); err != nil {
		return err
	}
	a.etcd.Observe(show.RegisterEtcdRequests(a.registry))
	a.cluster = cluster.NewManager(cluster.Config{
		Embedded: a.cfg.Embedded, Client: a.etcd, Reach: reach, Log: a.log, Registerer: a.registry, AwaitServices: a.awaitServices,
	})
	a.schedule = backup.NewSchedule(backup.ScheduleConfig{
		Plan: a.cfg.Snapshots, Client: a.etcd, Votes: a.cluster.HasVoter, DatabaseSize: a.databaseSize,
		Log: a.log.With("worker", "snapshots"),
	})
	a.health = etcdhealth.New(etcdhealth.Config{Client: a.etcd, Cluster: a.cluster, Embedded: a.cfg.Embedded != nil, Log: a.log})
	a.certificates = certificates.New(certificates.Config{
		EtcdCert: a.cfg.Etcd.CertFile, EtcdCA: a.cfg.Etcd.CAFile, Serving: a.cfg.TLS.CertFile, ClientCA: a.cfg.TLS.ClientCAFile,
		Kubeconfig: a.kubeconfig, Issues: a.issues, Joined: a.joined, Log: a.log,
	})
	return nil
}

// listen opens the listener.
func (a *App) listen() error {
	if a.cfg.Listen != "" {
		l, err := allowance.Listen(a.cfg.Listen)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("open the HTTP API (--listen): %w; if a sidecar of this node runs already, stop that first; another node on this machine needs another address", err)
		case err != nil:
			return fmt.Errorf("open the HTTP API (--listen): %w", err)
		}
		a.listener, a.url = l, scheme(a.cfg)+"://"+l.Addr().String()
	}
	a.address = address(a.cfg, a.listener)
	return nil
}

// recordingSize is the size of the flight recorder in bytes: a day of an idle fleet.
const recordingSize = 8 << 20

// wireTrace sets a hook that passes events to the flight recorder, and to the hook of tests.
func (a *App) wireTrace() error {
	tests, err := newTrace(a.id.node)
	if err != nil {
		return err
	}
	record := a.recorder.Hook()
	a.trace = func(e trace.Event) {
		if recorded() {
			record(e)
		}
		if tests != nil {
			tests(e)
		}
	}
	return nil
}

// wireNode creates the parts that follow the fleet, the status and the kube-apiserver.
func (a *App) wireNode() error {
	a.supervisor = supervise.New(a.log, a.registry)
	a.follower = fleet.NewFollower(a.etcd)
	a.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: a.etcd, Node: a.id.node, Instance: a.id.instance, MachineID: a.id.machineID,
		Host: a.id.host, Address: a.address,
		TTL: a.cfg.LeaseTTL, Shown: a.shown, Beat: a.live.beatOf(presenceLoop), Log: a.log.With("worker", "presence"),
	})
	a.store = status.NewStore(a.etcd)
	a.journal = journal.New(journal.Config{Client: a.etcd, Node: a.id.node, Log: a.log.With("worker", "history"), Registerer: a.registry})
	a.apiserver = apiserver.New(apiserver.Config{
		Node: a.id.node, Kubeconfig: a.kubeconfig, Asks: a.cfg.APIServerReadyz, None: a.cfg.Reconciler != nil,
		Local: a.bundle.Local(), Fleet: a.follower.Fleet(),
		ServicesChanged: func() <-chan struct{} { _, changed := a.roles.State().Load(); return changed },
		YieldAfter:      a.cfg.LeaderYieldAfter, Bundle: a.cfg.Bundle, Log: a.log,
	})
	return nil
}

// wireShow creates the part that shows the facts of all others.
func (a *App) wireShow() error {
	a.show = show.New(show.Config{
		Address: a.address, Bundle: a.cfg.Bundle, OverrideFile: a.cfg.OverrideFile, Etcd: a.cfg.Etcd, DataDir: a.dataDir(),
		Endpoint: a.endpoint, Log: a.log, Facts: a.facts(),
		Rendered: a.roles.Gate().Show, Beat: a.live.beatOf(snapshotLoop), Presence: a.shown, Observe: a.journal.Observe,
	})
	a.show.Register(a.registry, a.etcd)
	return nil
}

func (a *App) facts() show.Facts {
	f := show.Facts{
		Local: a.bundle.Local(), BundleFault: a.bundle.Fault(), Roles: a.roles.Local(), Services: a.roles.Loaded(),
		ServicesProblem: a.roles.Problem(), ServiceState: a.roles.State(), Withheld: a.roles.Withheld(), Servers: a.variables.Missing(),
		APIServer:    a.apiserver,
		Registration: a.roles.Registrar().Registration(), Verdict: a.roles.Gate().Verdict(),
		Override: a.overrides.InForce(), OverrideProblem: a.overrides.Problem(),
		Election: a.election.State(), Reconcile: a.reconcile.Report(), Failures: a.supervisor.Failures(),
		Kubeconfig: a.kubeconfig.Warnings(), Certificates: a.certificates.List(), CertificateWarnings: a.certificates.Warnings(),
		Contact: a.etcd.Contact(), EtcdProblem: a.health.Problem(), EtcdFaults: a.health.Faults(),
		Cluster: a.cluster, Schedule: a.schedule.State(), Status: a.store.Observed(), Leader: a.election.Leader(),
		Fleet: a.follower.Fleet(), Store: a.follower.Store(), Rival: a.presence.Rival(), Clocks: a.clocks.State(),
	}
	if a.publisher != nil {
		f.Endpoints = a.publisher.State()
	}
	return f
}

// addWorkers lists the workers that run as long as the API.
func (a *App) addWorkers() {
	a.keep("liveness", a.live.run)
	a.keep("snapshot", a.show.KeepSnapshot)
	a.keep("status", a.store.Run)
	a.keep("fleet", a.follower.Run)
	a.keep("etcd-servers", a.health.RunFaults)
	a.keep("kubeconfig", a.kubeconfig.Run)
	a.keep("apiserver-version", a.apiserver.RunVersion)
	a.keep("other-apiserver", a.apiserver.RunOther)
	a.keep("certificates", a.certificates.Run)
	a.keep("check", func(ctx context.Context) error { return a.etcd.KeepChecking(ctx, a.cfg.LeaseTTL) })
	a.keep("bundle", a.bundle.Run)
	a.keep("digests", a.show.LogDigests)
	a.keep("warnings", a.show.KeepWarnings)
	a.keep("clocks", a.clocks.Run)
	a.keep("override", a.overrides.Run)
	a.keep("happenings", a.show.KeepHistory)
	a.keep("history", a.journal.Run)
	a.keep("etcd-problem", a.health.RunProblem)
	if a.cfg.Embedded != nil {
		a.keep("servers", a.cluster.InCluster(a.variables.RunServers))
		a.keep("member-health", a.cluster.RunHealth)
		a.keep("snapshots", a.cluster.InCluster(a.keepSnapshots))
	}
	a.keep("turns", a.cluster.InCluster(a.turns.KeepCommands))
	if a.publisher != nil {
		a.keep("endpoints", a.publisher.Run)
	}
	if a.cfg.Reconciler == nil { // else this sidecar may not use a kube-apiserver at all
		a.keep("events", events.New(events.Config{ // the history as Events of Kubernetes
			API:  a.kubeconfig.Transport().Client(buildinfo.UserAgent()),
			Node: a.id.node, Fleet: a.follower.Fleet(), Own: a.journal.Changed(), Read: a.journal.Read,
			Log: a.log.With("worker", "events"),
			Leads: func() (bool, <-chan struct{}) {
				state, stateChanged := a.election.State().Load()
				return state.Election == protocol.Leading, stateChanged
			},
		}).Run)
	}
	if a.cfg.APIServerReadyz {
		a.keep("apiserver", a.apiserver.RunReadyz)
	}
}

// keep adds a worker.
func (a *App) keep(name string, run supervise.Worker) {
	a.workers = append(a.workers, worker{name, run})
}
