package model

import (
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// This file models the services that a node runs for the controller role, and the order
// in which its sidecar starts and stops them (docs/protocol-nodes.md#services).

// services are the services of a node, and its sidecar's knowledge of them.
type services struct {
	run   uint8 // the content that they were started for; 0: nothing runs
	ready bool
	// held: they keep the gate closed.
	held bool
	// published: the address of the node may be in the Service kubernetes.
	published bool
	// broken: they do not become ready.
	broken bool
	// other is the content that a program in their place was started for; 0: there is none.
	other uint8
	// wanted: the node is a controller, as far as its sidecar knows apart from its registration.
	wanted knowledge
}

// knowledge is a fact that may be unknown.
type knowledge uint8

const (
	unknown knowledge = iota
	no
	yes
)

// roleInRecord reports whether the record contains the controller role. If the record is
// corrupt, the node counts as a controller.
func (n *node) roleInRecord() knowledge {
	if n.roleless && n.record != corrupt {
		return no
	}
	return yes
}

// The safeguards of services. Their bits follow the safeguards of ephemeral records.
const (
	// A record is written only after the services of other releases ended.
	oldEnds safeguard = 1 << (60 - iota)
	// The gate opens only when the services are ready.
	readyFirst
	// Services are stopped only behind a closed gate.
	gateFirst
	// A sidecar that stops ends after its services.
	servicesEnd
	// A sidecar stops nothing until it knows its roles.
	rolesKnown
	// Services are stopped only after the address of their node left the Service.
	addressFirst safeguard = 1 << 53
)

// serviceFacts returns the facts that a sidecar knows of its services.
func (t *transition) serviceFacts(i int) nodeservices.Facts {
	n := &t.state.nodes[i]
	f := nodeservices.Facts{
		Known: n.services.wanted != unknown || n.leaving != notLeaving, Wanted: n.services.wanted == yes && n.leaving == notLeaving,
		Running: n.services.run != 0, Published: n.services.published, Leads: t.leadership(i) >= 0, GateClosed: !n.ready,
	}
	f.Old = f.Running && t.cfg.releaseOf(n.services.run) != t.cfg.releaseOf(n.run)
	f.Complete = f.Running && !f.Old
	f.Ready = f.Complete && n.services.ready
	return f
}

// learnRole lets a sidecar learn the roles in its record. Its registration may know
// them earlier or later.
func (t *transition) learnRole(i int) bool {
	n := &t.state.nodes[i]
	if !t.cfg.Services || n.run == 0 || n.services.wanted == n.roleInRecord() || n.record == corrupt && n.services.wanted != unknown {
		return false
	}
	n.services.wanted = n.roleInRecord()
	t.say("%s learns its roles", t.name(i))
	return true
}

// stepServices takes the next step about the services of a node.
func (t *transition) stepServices(i int) bool {
	n := &t.state.nodes[i]
	if !t.cfg.Services || n.run == 0 {
		return false
	}
	f := t.serviceFacts(i)
	if !t.cfg.holds(gateFirst) {
		f.GateClosed = true
	}
	if !t.cfg.holds(rolesKnown) {
		f.Known = true
	}
	if !t.cfg.holds(addressFirst) {
		f.Published = false
	}
	switch step := nodeservices.Next(f); step {
	case nodeservices.CloseGate:
		n.ready, n.staleRead, n.services.held = false, false, true
		t.say("%s closes its gate, since its services are about to stop", t.name(i))
	case nodeservices.HandOver:
		t.stepDown(i)
	case nodeservices.StopServices:
		t.say("%s stops its services, of %s", t.name(i), t.contentText(n.services.run))
		t.event.stoppedPublished = n.services.published
		t.event.stoppedUnknown = n.services.wanted == unknown && n.leaving == notLeaving
		n.services.run, n.services.ready, n.services.held = 0, false, true
		if n.leaving == servesStill {
			n.leaving = servesNoMore
		}
	case nodeservices.StartServices:
		if !t.mayStart(i) {
			return false
		}
		t.say("%s starts its services", t.name(i))
		n.services.run, n.services.held = n.run, true
	case nodeservices.AwaitServices:
		if !t.becomeReady(i) {
			return false
		}
		t.say("the services of %s are ready", t.name(i))
		n.services.ready = true
	case nodeservices.Serve:
		if !n.services.held {
			return false
		}
		n.services.held = false
	default: // Idle, AwaitRoles, AwaitAddress
		if n.leaving != servesStill || step != nodeservices.Idle {
			return false
		}
		n.leaving = servesNoMore
	}
	return true
}

// publish puts the addresses of the nodes that are ready into the Service. It happens at
// once: the sooner it does, the more can go wrong.
func (t *transition) publish() {
	for i := range t.cfg.Nodes {
		if n := &t.state.nodes[i]; t.cfg.Publishes && n.ready {
			n.services.published = true
		}
	}
}

// unpublish lets the address of a node that is not ready leave the Service.
func (t *transition) unpublish(i int) bool {
	n := &t.state.nodes[i]
	if n.ready || !n.services.published {
		return false
	}
	n.services.published = false
	t.say("the address of %s leaves the Service", t.name(i))
	return true
}

// endServices lets the services of a node end whose sidecar does not run.
func (t *transition) endServices(i int) bool {
	n := &t.state.nodes[i]
	if !t.cfg.Services || n.run != 0 || n.services.run == 0 {
		return false
	}
	n.services.run, n.services.ready = 0, false
	t.say("the services of %s end", t.name(i))
	return true
}

// mayRegister reports whether the services of a node, or its kube-apiserver, let its sidecar
// write its record.
func (t *transition) mayRegister(i int) bool {
	if t.cfg.Deployed {
		other := t.otherAPIServer(i) && t.cfg.holds(apiserverFirst)
		return nodeservices.MayRegister(nodeservices.Facts{Known: true, Wanted: true, Complete: true, Ready: true, OtherAPIServer: other})
	}
	if !t.cfg.Services {
		return true
	}
	f := t.serviceFacts(i)
	f.Wanted = !t.state.nodes[i].roleless // by the record that is replaced
	if !t.cfg.holds(oldEnds) {
		f.Old = false
	}
	if !t.cfg.holds(readyFirst) {
		f.Ready = true
	}
	return nodeservices.MayRegister(f)
}

// withheld returns why the services keep the gate of a node closed; empty: they do not.
func (t *transition) withheld(i int) string {
	if t.state.nodes[i].services.held && t.cfg.holds(readyFirst) {
		return "the services are not ready"
	}
	return ""
}

// checkInOrder: no record is written while a service of another release runs; a gate
// is ready only while the services of its release run; nothing is stopped by a sidecar
// that does not know its roles, or while its address may still leave the Service; and no
// sidecar ends before its services.
func checkInOrder(t *transition) string {
	if !t.cfg.Services {
		return ""
	}
	switch {
	case t.event.stoppedUnknown:
		return "a sidecar stops services before it knows its roles"
	case t.event.stoppedPublished:
		return "a sidecar stops services while the Service kubernetes leads to them"
	case t.event.leftRunning:
		return "a sidecar that stops ends while its services run"
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		runs := n.services.run
		switch {
		case n.run == 0:
		case n.registered && n.record == n.run && runs != 0 && t.cfg.releaseOf(runs) != t.cfg.releaseOf(n.run):
			return t.name(i) + " has registered while services of another release run"
		case n.ready && n.services.other != 0:
			return t.name(i) + " is ready, and another program answers for its services"
		case n.registered && n.record == n.run && n.services.ready && n.services.other != 0:
			return t.name(i) + " has registered, and another program answers for its services"
		case n.ready && !n.services.ready:
			return t.name(i) + " is ready while its services are not"
		}
	}
	return ""
}
