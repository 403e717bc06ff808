package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// CheckEndpoints visits every state that cfg can reach. It stops at the first violation.
func CheckEndpoints(cfg *EndpointsConfig) Found {
	return explore(smallWorld[endpointsState]{
		first: initialEndpoints(cfg), moves: int(endpointsMoves), nodes: cfg.Nodes, add: reached[endpointsState](),
		move: func(_, next *endpointsState, m, i int) (text, name, why string) {
			what, broken := next.apply(cfg, endpointsMove(m), i)
			if what == "" {
				return "", "", ""
			}
			return fmt.Sprintf("n%d %s", i+1, what), broken[0], broken[1]
		},
		future: func(s *endpointsState) (name, why string) {
			if why = follows(cfg, *s); why != "" && cfg.asks("Follows") {
				return "Follows", why
			}
			return "", ""
		},
	})
}

// follows returns why the Service does not get the addresses of the nodes that are ready,
// when nothing changes any more and no kube-apiserver writes it; empty: it does. Sidecars
// repair the writes of a stranger without a pause, up to publish.Patience of them.
func follows(cfg *EndpointsConfig, st endpointsState) string {
	if st.reconciles || st.ready == 0 || st.ready&^st.part != 0 || st.part == 0 {
		return ""
	}
	pauses := uint8(1)
	if cfg.Strangers > 0 && !cfg.Reconciler && cfg.Strangers <= publish.Patience {
		pauses = 0
	}
	for range 2 * cfg.Nodes {
		for i := range cfg.Nodes {
			if !st.hasTurn(cfg, i) {
				continue // it sees the write of another one
			}
			st.pauses = pauses
			for _, m := range []endpointsMove{endpointsLand, endpointsPauseEnds, endpointsRead, endpointsDecide, endpointsLand} {
				st.apply(cfg, m, i)
			}
		}
	}
	if st.object.foreign {
		return "the Service keeps the ID of another store"
	}
	if st.object.set != st.ready {
		return fmt.Sprintf("the Service has %s, and %s are ready", st.object.set, st.ready)
	}
	return ""
}
