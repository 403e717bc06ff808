package app

import (
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

// wireLeader creates the reconciler and the election.
func (p *parts) wireLeader() error {
	var err error
	if p.reconcile, err = p.newReconciler(); err != nil {
		return err
	}
	p.election = election.New(election.Config{
		Client: p.etcd, Store: p.store, Local: p.bundle.Local(), Fleet: p.follower.Fleet(),
		StoreKey: p.follower.Store(), Applier: p.reconcile, Session: p.presence.Session(),
		TTL: p.cfg.LeaseTTL, ResyncInterval: p.cfg.ResyncInterval, YieldAfter: p.cfg.LeaderYieldAfter, APIProblem: p.apiProblem,
		Missing: func(id protocol.NodeID) time.Time { return p.show.Missing(id) }, // the show comes after the election
		MayLead: p.leads,
		Log:     p.log.With("worker", "election"), Registerer: p.registry, Trace: p.trace,
	})
	return nil
}

func (p *parts) newReconciler() (Reconciler, error) {
	if p.cfg.Reconciler != nil {
		return p.cfg.Reconciler, nil
	}
	r, err := reconcile.New(reconcile.Config{
		RESTConfig: p.kubeconfig.Transport().Config(), UserAgent: buildinfo.UserAgent(),
		Bundle: p.bundle.Bundle(), Concurrency: p.cfg.ApplyConcurrency,
		AllowMassPrune: p.cfg.AllowMassPrune, Log: p.log, Registerer: p.registry,
	})
	return applier{r}, err
}

// apiProblem explains why this node's kube-apiserver cannot be used. The election asks only when it
// cannot be used.
func (p *parts) apiProblem() protocol.Eligibility {
	return p.apiserver.Unusable(p.reconcile.Trouble(), p.election.State().Get().Problem)
}
