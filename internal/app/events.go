package app

import (
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/events"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

// wireEvents creates the worker that shows the history as Kubernetes Events. With Config.Reconciler
// there is none: that sidecar may not use a kube-apiserver at all.
func (a *App) wireEvents() error {
	if a.cfg.Reconciler != nil {
		return nil
	}
	api, err := kube.New(a.kubeconfig.transport.Config(), "lockstep/"+buildinfo.Get().Version)
	if err != nil {
		return err
	}
	a.events = events.New(events.Config{
		API: api, Node: a.id.node, Fleet: a.follower.Fleet(), Own: a.journal.Changed(), Read: a.journal.Read,
		Log: a.log.With("worker", "events"),
		Leads: func() (bool, <-chan struct{}) {
			state, stateChanged := a.election.State().Load()
			return state.Election == protocol.Leading, stateChanged
		},
	})
	return nil
}
