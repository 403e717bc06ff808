package model

import "fmt"

// CheckServiceTurns visits every state that cfg can reach. It stops at the first violation.
func CheckServiceTurns(cfg *ServiceTurnsConfig) (r TurnsResult) {
	ends := map[changingState]bool{}
	r.Found = explore(smallWorld[changingState]{
		first: initialChanging(cfg), moves: int(restartMoves), nodes: cfg.Nodes, add: reached[changingState](),
		move: func(before, next *changingState, m, i int) (text, name, why string) {
			what := next.apply(cfg, restartMove(m), i)
			if what == "" {
				return "", "", ""
			}
			r.Taken = r.Taken || next.nodes[i].held
			name, why = next.broken(cfg, before, restartMove(m), i)
			return fmt.Sprintf("%s %s", nodeID(i), what), name, why
		},
		future: func(s *changingState) (name, why string) { return s.stuck(cfg, ends) },
	})
	return r
}

// broken returns the first invariant that a move of node i breaks, and why.
func (s *changingState) broken(cfg *ServiceTurnsConfig, before *changingState, m restartMove, i int) (name, why string) {
	now, was := &s.nodes[i], &before.nodes[i]
	id := nodeID(i)
	switch {
	case m == restartLoad && was.wasReady && was.gate != gateDrained:
		return "DrainsFirst", fmt.Sprintf("%s stops its service, and clients may still use it", id)
	case countOf(s.nodes[:], func(n *changingNode) bool { return n.stopped }) > 1:
		return "OneOut", "two nodes are out of service because of the change"
	case now.held && !was.held && countOf(before.nodes[:], func(n *changingNode) bool { return n.held }) > 0:
		return "FewTurns", "two nodes have a turn"
	case now.held && !was.held && before.record(i).Serves() && before.othersServing(cfg, i) == 0:
		return "LeavesOne", fmt.Sprintf("the turn of %s takes the last node in service", id)
	case m == restartDrain && was.seen < now.seen && was.pending(cfg) && !was.patient && before.othersOut(cfg, i):
		return "OthersServe", fmt.Sprintf("%s is about to stop its service, and another node has stopped serving", id)
	case m == restartGate && now.gate == gateOpen && now.changing:
		return "OpenServes", fmt.Sprintf("the gate of %s opens, and its service is not ready since the change", id)
	case m == restartAct && was.held && !now.held && now.file == now.runs && !s.record(i).Serves() && !now.roleless:
		return "ServesAgain", fmt.Sprintf("the turn of %s ends, and it does not serve", id)
	}
	return "", ""
}

// othersServing counts other nodes that serve, according to the store.
func (s *changingState) othersServing(cfg *ServiceTurnsConfig, i int) (n int) {
	for j := range cfg.Nodes {
		if j != i && s.record(j).Serves() {
			n++
		}
	}
	return n
}

// othersOut reports whether another controller without a turn does not serve, or is cordoned, according to the store.
func (s *changingState) othersOut(cfg *ServiceTurnsConfig, i int) bool {
	for j := range cfg.Nodes {
		if n := &s.nodes[j]; j != i && !n.held && !n.roleless && (n.cordon != turnCordonNone || !s.record(j).Serves()) {
			return true
		}
	}
	return false
}

// afterFaults are the moves that go on when faults stop.
func afterFaults() []restartMove {
	return []restartMove{
		restartStart, restartGate, restartDrain, restartReport, restartObserve, restartAsk, restartDecide, restartDecidePatiently,
		restartWrite, restartLoad, restartReady, restartAct,
	}
}

// stuck says that a node does not run the repaired file and serve, when faults stop, all nodes run,
// people end their cordons, and repair the files of all nodes. Services that broke stay broken until
// they are started again. ends contains the states from which that was tried and went well.
func (s *changingState) stuck(cfg *ServiceTurnsConfig, ends map[changingState]bool) (name, why string) {
	st := *s
	st.breaks, st.offs, st.cordons, st.repairs, st.forces = 0, 0, 0, 0, 0
	st.leaves = 0
	for i := range cfg.Nodes {
		n := &st.nodes[i]
		if n.file == contentRepaired && n.wasReady && !n.ready {
			n.ready = true // the repair breaks as well: people repair that otherwise
		}
		n.file = contentRepaired
		if n.cordon == turnCordonPeople {
			n.cordon = turnCordonNone
		}
	}
	if ends[st] {
		return "", ""
	}
	from := st
	for range turnRounds {
		for _, m := range afterFaults() {
			for i := range cfg.Nodes {
				st.apply(cfg, m, i)
			}
		}
		if countOf(st.nodes[:], func(n *changingNode) bool {
			return (n.roleless || n.runs == contentRepaired && n.ready && n.gate == gateOpen) && !n.held && n.place == 0
		}) == cfg.Nodes {
			ends[from] = true
			return "", ""
		}
	}
	return "EachChanges", "a node never serves with its repaired file"
}
