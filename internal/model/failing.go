package model

// This file models services that do not become ready, and programs that run in their place
// (docs/protocol-nodes.md#services).

// The safeguards of such services. Their bits follow the safeguards of rollbacks.
const (
	// A node whose services are not ready lets older nodes lead.
	unreadyMakesWay safeguard = 1 << (45 - iota)
	// A service does not start while another program answers in its place.
	placeFree
)

// breakServices is a fault: services that the node starts from here on never become ready. Ready
// ones stay ready: a service that fails later closes no gate.
func (t *transition) breakServices(i int) bool {
	n := &t.state.nodes[i]
	if n.services.broken {
		return false
	}
	n.services.broken = true
	t.say("the services of %s do not become ready any more, once they are started again", t.name(i))
	return true
}

// takePlace is a fault: a sidecar is killed and leaves its services, and the next one does not know
// them.
func (t *transition) takePlace(i int) bool {
	n := &t.state.nodes[i]
	if n.services.run == 0 || n.services.other != 0 || !t.kill(i) {
		return false
	}
	n.services.other, n.services.run, n.services.ready = n.services.run, 0, false
	t.say("the services of %s, of %s, go on, and the next sidecar does not know them", t.name(i), t.contentText(n.services.other))
	return true
}

// freePlace lets an administrator stop the program that runs in the place of services.
func (t *transition) freePlace(i int) bool {
	n := &t.state.nodes[i]
	if n.services.other == 0 {
		return false
	}
	n.services.other = 0
	t.say("an administrator stops what has the place of the services of %s", t.name(i))
	return true
}

// mayStart reports whether services start now: not beside another program.
func (t *transition) mayStart(i int) bool {
	return t.state.nodes[i].services.other == 0 || !t.cfg.holds(placeFree)
}

// becomeReady reports whether services become ready after their start.
func (t *transition) becomeReady(i int) bool {
	s := &t.state.nodes[i].services
	return s.other != 0 || !s.broken // another program answers
}

// withdrawnFor reports whether others see that a node lets them lead.
func (c *Config) withdrawnFor(n *node) bool {
	return n.withdrawn && c.holds(withdrawnMakesWay) || n.services.held && c.holds(unreadyMakesWay)
}
