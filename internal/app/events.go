package app

import (
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/events"
	"github.com/lockstep-dev/lockstep/protocol"
)

// wireEvents creates the worker that shows the history as Kubernetes Events. With Config.Reconciler
// there is none: that sidecar may not use a kube-apiserver at all.
func (p *parts) wireEvents() error {
	if p.cfg.Reconciler != nil {
		return nil
	}
	writer := events.New(events.Config{
		API:  p.kubeconfig.Transport().Client(buildinfo.UserAgent()),
		Node: p.id.node, Fleet: p.follower.Fleet(), Own: p.journal.Changed(), Read: p.journal.Read,
		Log: p.log.With("worker", "events"),
		Leads: func() (bool, <-chan struct{}) {
			state, stateChanged := p.election.State().Load()
			return state.Election == protocol.Leading, stateChanged
		},
	})
	p.keep("events", writer.Run)
	return nil
}
