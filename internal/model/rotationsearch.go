package model

import "fmt"

// RotationResult is the result of a search.
type RotationResult struct {
	Found
	Ended bool // a rotation ended in some state
}

// CheckRotation visits every state that cfg can reach. It stops at the first violation.
func CheckRotation(cfg *RotationConfig) (r RotationResult) {
	r.Found = explore(smallWorld[rotationState]{
		first: initialRotation(cfg), moves: int(rotationMoves), nodes: cfg.Nodes, add: reached[rotationState](),
		move: func(before, next *rotationState, m, i int) (text, name, why string) {
			what := next.apply(cfg, rotationMove(m), i)
			if what == "" {
				return "", "", ""
			}
			r.Ended = r.Ended || next.ended
			name, why = next.broken(before)
			return fmt.Sprintf("%s %s", nodeID(i), what), name, why
		},
		future: func(s *rotationState) (name, why string) {
			if why = s.stuck(cfg); why != "" && cfg.Off == 0 {
				return "Ends", why
			}
			return "", ""
		},
	})
	return r
}

// broken returns the first invariant that does not hold, and why.
func (s *rotationState) broken(before *rotationState) (name, why string) {
	for i := range s.nodes {
		for j := range s.nodes {
			a, b := &s.nodes[i], &s.nodes[j]
			if !a.gone && !b.gone && a.trusts&(1<<b.uses) == 0 {
				return "Trusted", fmt.Sprintf("%s does not trust the CA of the certificate that %s uses", nodeID(i), nodeID(j))
			}
		}
	}
	if restarting := s.count(func(n *rotatingNode) bool { return n.restarting }); restarting > 1 {
		return "OneAtATime", "two nodes restart their processes at the same moment"
	}
	if why := s.unsigned(); why != "" {
		return "Signed", why
	}
	if s.ended && !before.ended {
		if why := s.trustedAtTheEnd(); why != "" {
			return "Dropped", why
		}
	}
	return "", ""
}

func (s *rotationState) count(is func(*rotatingNode) bool) int {
	return countOf(s.nodes[:], func(n *rotatingNode) bool { return !n.gone && is(n) })
}

// unsigned says that a node uses a certificate of the new CA while a voter is without its key.
func (s *rotationState) unsigned() string {
	used := s.count(func(n *rotatingNode) bool { return n.uses == s.next && s.next > 0 }) > 0
	for i := range s.nodes {
		if n := &s.nodes[i]; used && !n.gone && n.keys&(1<<s.next) == 0 {
			return fmt.Sprintf("the new CA is used, and %s does not have its key", nodeID(i))
		}
	}
	return ""
}

// trustedAtTheEnd says which node still trusts or uses another CA than the new one when a
// rotation ends, or which removed node can sign.
func (s *rotationState) trustedAtTheEnd() string {
	for i := range s.nodes {
		n := &s.nodes[i]
		switch {
		case !n.gone && (n.trusts != 1<<s.next || n.disk != 1<<s.next || n.uses != s.next):
			return fmt.Sprintf("%s still trusts or uses another CA than the new one", nodeID(i))
		case n.gone && n.early && n.keys&(1<<s.next) != 0:
			return fmt.Sprintf("%s was removed with the key of the new CA before that was used", nodeID(i))
		case n.gone && n.keys&(1<<s.next) != 0 && s.given&(1<<i) == 0:
			return fmt.Sprintf("%s was removed with the key of the new CA, and the record does not name it", nodeID(i))
		}
	}
	return ""
}

// endRounds is more than a rotation needs.
const endRounds = 60

// stuck says that the rotation does not end when all nodes run and none fails any more.
func (s *rotationState) stuck(cfg *RotationConfig) string {
	st := *s
	st.faults, st.removals = 0, 0
	for range endRounds {
		for _, m := range []rotationMove{rotationStart, rotationReady, rotationReport, rotationDecide, rotationDo} {
			for i := range cfg.Nodes {
				st.apply(cfg, m, i)
			}
		}
		if st.ended || st.count(func(*rotatingNode) bool { return true }) == 0 {
			return ""
		}
	}
	return "the rotation never ends"
}
