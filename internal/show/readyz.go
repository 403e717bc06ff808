package show

import (
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

func (s *Show) registerReadyz(in metric.Set) {
	in.GaugeFunc("lockstep_readyz",
		"1 while /readyz answers 200: the gate is open, and with --apiserver-readyz this node's kube-apiserver is ready. If it is 0 while lockstep_status_gate_ready is 1, check that kube-apiserver.",
		func() float64 { return metric.Bool(httpapi.Serves(s.snapshot.Get())) })
}

// apiserverWarnings warns of a kube-apiserver that keeps a node with an open gate out of service.
func (s *Show) apiserverWarnings() []protocol.Warning {
	api := s.APIServer.Shown().Get()
	if !api.Enabled || api.Ready || api.Since.IsZero() || !s.Verdict.Get().Ready {
		return nil
	}
	reason, message := api.Problem()
	return []protocol.Warning{{Reason: reason, Message: message, Since: api.Since}}
}
