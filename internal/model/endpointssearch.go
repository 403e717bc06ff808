package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// EndpointsResult is the result of a search through a world of one Service.
type EndpointsResult struct {
	States, Transitions int
	Violation           *Violation // the first one; nil: none
}

type endpointsSearch struct {
	cfg     *EndpointsConfig
	seen    map[endpointsState]bool
	states  []endpointsState
	origins []memberOrigin
	result  EndpointsResult
}

// CheckEndpoints visits every state that cfg can reach. It stops at the first violation.
func CheckEndpoints(cfg *EndpointsConfig) EndpointsResult {
	s := &endpointsSearch{cfg: cfg, seen: map[endpointsState]bool{}}
	s.add(initialEndpoints(cfg), 0, "")
	for at := 0; at < len(s.states) && s.result.Violation == nil; at++ {
		s.expand(uint32(at))
	}
	s.result.States = len(s.states)
	return s.result
}

// expand makes every move that is possible in a state.
func (s *endpointsSearch) expand(at uint32) {
	for m := range endpointsMove(endpointsMoves) {
		for i := range s.cfg.Nodes {
			next := s.states[at]
			what, broken := next.apply(s.cfg, m, i)
			if what == "" {
				continue
			}
			s.result.Transitions++
			text := fmt.Sprintf("n%d %s", i+1, what)
			if broken[0] != "" {
				s.violated(broken[0], broken[1], at, text)
				return
			}
			if s.add(next, at, text); s.result.Violation != nil {
				return
			}
		}
	}
}

// add keeps a state that is new, and checks that the Service follows the nodes from it.
func (s *endpointsSearch) add(st endpointsState, from uint32, text string) {
	if s.seen[st] {
		return
	}
	s.seen[st] = true
	if why := follows(s.cfg, st); why != "" && s.cfg.asks("Follows") {
		s.violated("Follows", why, from, text)
		return
	}
	s.states, s.origins = append(s.states, st), append(s.origins, memberOrigin{from, text})
}

func (s *endpointsSearch) violated(name, why string, from uint32, last string) {
	s.result.Violation = &Violation{Invariant: name, Why: why, Story: storyTo(s.origins, from, last)}
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
			for _, m := range []endpointsMove{serviceLand, servicePauseEnds, serviceRead, serviceDecide, serviceLand} {
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
