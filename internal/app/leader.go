package app

import (
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

// wireLeader creates the reconciler and the election.
func (a *App) wireLeader() error {
	var err error
	if a.reconcile, err = a.newReconciler(); err != nil {
		return err
	}
	a.election = election.New(election.Config{
		Client: a.etcd, Store: a.store, Local: a.bundle.Local(), Fleet: a.follower.Fleet(),
		StoreKey: a.follower.Store(), Applier: a.reconcile, Session: a.presence.Session(),
		TTL: a.cfg.LeaseTTL, ResyncInterval: a.cfg.ResyncInterval, YieldAfter: a.cfg.LeaderYieldAfter, APIProblem: a.apiProblem,
		Missing: func(id protocol.NodeID) time.Time { return a.show.Missing(id) }, // the show comes after the election
		MayLead: a.leads,
		Log:     a.log.With("worker", "election"), Registerer: a.registry, Trace: a.trace,
	})
	return nil
}

func (a *App) newReconciler() (Reconciler, error) {
	if a.cfg.Reconciler != nil {
		return a.cfg.Reconciler, nil
	}
	r, err := reconcile.New(reconcile.Config{
		RESTConfig: a.kubeconfig.Transport().Config(), UserAgent: buildinfo.UserAgent(),
		Bundle: a.bundle.Bundle(), Concurrency: a.cfg.ApplyConcurrency,
		AllowMassPrune: a.cfg.AllowMassPrune, Log: a.log, Registerer: a.registry,
	})
	return applier{r}, err
}

// apiProblem explains why this node's kube-apiserver cannot be used. The election asks only when it
// cannot be used.
func (a *App) apiProblem() protocol.Eligibility {
	return a.apiserver.Unusable(a.reconcile.Trouble(), a.election.State().Get().Problem)
}
