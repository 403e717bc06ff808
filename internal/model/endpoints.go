package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// This file defines a world of its own: the addresses in the Service kubernetes, and the
// sidecars that write them (docs/protocol-endpoints.md#kubernetes-service). endpointssearch.go
// searches it.

// maxWriters is the highest number of nodes in such a world.
const maxWriters = 3

// EndpointsConfig configures a world of one Service.
type EndpointsConfig struct {
	Nodes      int  // each runs a sidecar that may write
	Outside    int  // how many of them do not take part at first
	Changes    int  // how often a node becomes ready or not ready, or begins to take part
	Restores   int  // how often etcd is restored from the backup of the beginning
	Restarts   int  // how often a sidecar starts again and forgets its reads
	Reconciler bool // the kube-apiserver of the first node writes the Service itself
	Pauses     int  // how often a pause after an overwrite ends
	Strangers  int  // how often a client that is no sidecar changes the Service
	Stops      int  // how many nodes stop their kube-apiserver, and then their sidecar
	Off        endpointsSafeguard
	Only       string // the invariant that is asked; empty: all
}

// String lists the bounds.
func (c *EndpointsConfig) String() string {
	out := fmt.Sprintf("%d nodes, %d without the flag, %d changes, %d restores, %d restarts", c.Nodes, c.Outside, c.Changes, c.Restores, c.Restarts)
	if c.Reconciler {
		out += fmt.Sprintf(", a kube-apiserver that writes, %d pauses end", c.Pauses)
	}
	if c.Strangers > 0 {
		out += fmt.Sprintf(", %d changes by a stranger", c.Strangers)
	}
	if c.Stops > 0 {
		out += fmt.Sprintf(", %d stops", c.Stops)
	}
	return out
}

// endpointsSafeguard is a part of the rules that a search can turn off.
type endpointsSafeguard uint16

const (
	// The object is read before the snapshot is taken.
	objectFirst endpointsSafeguard = 1 << iota
	// A write lands only if the object did not change since it was read.
	objectUnchanged
	// No object is written without an address.
	lastStays
	// After the store went back, a lower revision counts.
	backCounts
	// Only the addresses of nodes whose presence is ready are written.
	readyOnly
	// Sidecars replace another client's addresses only if every node in service takes part.
	allTakePart
	// A sidecar whose write was replaced again and again waits.
	pauseAfterOverwrite
	// A sidecar repairs at once a write that was replaced only a few times.
	firstRepairs
	// The parent decides whose objects these are, not the annotation.
	parentDecides
	// A kube-apiserver stops only after the address of its node left the Service.
	leavesFirst
	// Only a node that takes traffic gets the turn to write.
	turnTaken
)

// endpointsObject is the content of an object of the Service. The model holds one, since writers keep a
// separate view of each.
type endpointsObject struct {
	known    bool
	own      bool // Lockstep wrote it last
	set      nodeSet
	revision uint8 // the annotation; 0: none
	history  uint8 // of that revision: how often the store went back before it
	foreign  bool  // the annotation names another store
}

// writerPhase is how far a sidecar is with a write.
type writerPhase uint8

const (
	writerIdle    writerPhase = iota
	writerRead                // it read the first of object and snapshot
	writerDecided             // its request is under way
)

// endpointsWriter is a sidecar.
type endpointsWriter struct {
	phase writerPhase
	seen  endpointsObject // as it read it last
	fresh bool            // the object did not change since

	// Its snapshot, and the addresses that it writes.
	revision, history uint8
	ready             nodeSet
	part              nodeSet
	writes            nodeSet

	// overwritten is how often it saw that another client replaced Lockstep's write, since
	// its last pause; more than publish.Patience: it pauses.
	overwritten uint8
}

// endpointsState is a state of the world.
type endpointsState struct {
	revision, history uint8
	ready, part       nodeSet // as in the presences
	gone              nodeSet // that stopped
	reconciles        bool    // the kube-apiserver of the first node
	object            endpointsObject
	writers           [maxWriters]endpointsWriter

	changes, restores, restarts, pauses, strangers, stops uint8
}

func initialEndpoints(cfg *EndpointsConfig) endpointsState {
	all := nodeSet(1<<cfg.Nodes - 1)
	st := endpointsState{
		revision: 1, ready: all, part: all &^ (1<<cfg.Outside - 1), reconciles: cfg.Reconciler,
		changes: uint8(cfg.Changes), restores: uint8(cfg.Restores), restarts: uint8(cfg.Restarts),
		pauses: uint8(cfg.Pauses), strangers: uint8(cfg.Strangers), stops: uint8(cfg.Stops),
	}
	st.object = endpointsObject{known: true, own: true, set: all, revision: 1}
	if cfg.Reconciler || cfg.Outside > 0 {
		st.object = endpointsObject{known: true, set: 1}
	}
	return st
}

// endpointsMove is something that can happen.
type endpointsMove uint8

const (
	endpointsToggle endpointsMove = iota
	endpointsTakePart
	endpointsRestoreStore
	endpointsRead
	endpointsDecide
	endpointsLand
	endpointsRestart
	endpointsPauseEnds
	endpointsReconcile
	endpointsReconcilerStops
	endpointsHijack
	endpointsForge
	endpointsStop
	endpointsMoves = iota
)

// apply makes a move of a node, and describes it for the story; empty: it is not possible now.
// broken is the invariant that it breaks, and why; empty: none.
func (s *endpointsState) apply(cfg *EndpointsConfig, m endpointsMove, i int) (what string, broken [2]string) {
	w := &s.writers[i]
	switch m {
	case endpointsToggle:
		if cfg.Stops > 0 && !s.ready.has(i) {
			return "", broken // it stays not ready: no sidecar can observe a write that is under way since then
		}
		return s.happen(m, i), broken
	case endpointsRead:
		if w.phase == writerIdle && s.part.has(i) && !s.gone.has(i) {
			return s.begin(cfg, i), broken
		}
	case endpointsDecide:
		if w.phase == writerRead && !s.gone.has(i) {
			return s.decide(cfg, i), broken
		}
	case endpointsLand:
		if w.phase == writerDecided {
			return s.landWrite(cfg, i)
		}
	case endpointsRestart:
		if s.restarts > 0 && (w.seen.known || w.phase != writerIdle) {
			s.restarts--
			*w = endpointsWriter{}
			return "starts again", broken
		}
	case endpointsPauseEnds:
		if s.pauses > 0 && w.overwritten > 0 {
			s.pauses--
			w.overwritten = 0
			return "has waited long enough", broken
		}
	case endpointsStop:
		return s.stop(cfg, i)
	default:
		return s.happen(m, i), broken
	}
	return "", broken
}

// happen makes a move that no sidecar decides.
func (s *endpointsState) happen(m endpointsMove, i int) string {
	switch {
	case m == endpointsToggle && s.changes > 0 && !s.gone.has(i):
		s.changes--
		s.revision++
		s.ready ^= 1 << i
		if s.ready.has(i) {
			return "becomes ready"
		}
		return "is not ready any more"
	case m == endpointsTakePart && s.changes > 0 && !s.part.has(i):
		s.changes--
		s.revision++
		s.part |= 1 << i
		return "takes part from now on"
	case m == endpointsRestoreStore && s.restores > 0 && i == 0 && s.revision > 1:
		s.restores--
		s.history++
		s.revision = 1
		s.ready |= s.part // as at the beginning
		return "and the others lose their etcd, which is restored from the backup of the beginning"
	case m == endpointsReconcile && i == 0 && s.reconciles && (s.object.own || s.object.set != 1):
		s.replace(endpointsObject{known: true, set: 1})
		return "has a kube-apiserver that writes its own address alone"
	case m == endpointsReconcilerStops && i == 0 && s.reconciles:
		s.reconciles = false
		s.replace(endpointsObject{known: true})
		return "stops that kube-apiserver, which empties the Service"
	case s.strangers > 0 && i == 0:
		return s.stranger(m)
	}
	return ""
}

// replace changes the object. After that, no writer knows its newest form.
func (s *endpointsState) replace(with endpointsObject) {
	s.object = with
	for i := range s.writers {
		s.writers[i].fresh = false
	}
}

// begin reads the first of the two: the object, before the snapshot.
func (s *endpointsState) begin(cfg *EndpointsConfig, i int) string {
	s.writers[i].phase = writerRead
	if cfg.Off&objectFirst != 0 {
		s.takeSnapshot(i)
		return "takes a snapshot"
	}
	s.readObject(i)
	return "reads the Service"
}

func (s *endpointsState) readObject(i int) {
	w := &s.writers[i]
	if w.seen.known {
		if _, counted := (publish.Overwrites{}).After(w.seen.published(), s.object.published(), 0); counted {
			w.overwritten = min(w.overwritten+1, publish.Patience+1)
		}
	}
	w.seen, w.fresh = s.object, true
}

func (s *endpointsState) takeSnapshot(i int) {
	w := &s.writers[i]
	w.revision, w.history, w.ready, w.part = s.revision, s.history, s.ready, s.part
}

// decide reads the second of the two, and asks the protocol.
func (s *endpointsState) decide(cfg *EndpointsConfig, i int) string {
	w := &s.writers[i]
	what := "takes a snapshot"
	if cfg.Off&objectFirst != 0 {
		s.readObject(i)
		what = "reads the Service"
	} else {
		s.takeSnapshot(i)
	}
	step := publish.Next(w.facts(cfg))
	w.phase, w.writes = writerIdle, 0
	switch {
	case cfg.Off&backCounts != 0 && w.revision < w.seen.revision:
		return what + ", and waits for a newer one"
	case step.Kind == publish.Write:
		w.phase, w.writes = writerDecided, setOf(step.Addresses)
		return what + ", and sends " + w.writes.String()
	case step.Reason == publish.NoneReady && cfg.Off&lastStays != 0 && w.seen.set != 0:
		w.phase = writerDecided
		return what + ", and sends an empty list"
	}
	return what + ", and does nothing"
}

// landWrite carries out a request.
func (s *endpointsState) landWrite(cfg *EndpointsConfig, i int) (what string, broken [2]string) {
	w := &s.writers[i]
	w.phase = writerIdle
	if !w.fresh && cfg.Off&objectUnchanged == 0 {
		return "is refused: the Service has changed", broken
	}
	broken = s.judgeWrite(cfg, w)
	s.replace(endpointsObject{known: true, own: true, set: w.writes, revision: w.revision, history: w.history})
	w.seen, w.fresh = s.object, true
	return "has written " + w.writes.String(), broken
}

// judgeWrite returns the invariant that a write breaks.
func (s *endpointsState) judgeWrite(cfg *EndpointsConfig, w *endpointsWriter) [2]string {
	now := s.object
	older := w.history < now.history || w.history == now.history && w.revision < now.revision
	foreign := !now.own && now.set != 0
	for _, b := range []struct {
		name, why string
		holds     bool
	}{
		{"Published", "the address of a node is written that was not ready at the revision", w.writes&^w.ready == 0},
		{"LastAddress", "the last address is removed", w.writes != 0},
		{"NotOlder", "a lower revision replaces a higher one, and the store did not go back in between", !now.own || !older},
		{"Yields", "a node in service does not take part, and what another client wrote is replaced", !foreign || w.ready&^w.part == 0},
		{"Yields", "a sidecar that has seen its write replaced again and again writes at once", !foreign || w.overwritten <= publish.Patience},
	} {
		if !b.holds && cfg.asks(b.name) {
			return [2]string{b.name, b.why}
		}
	}
	return [2]string{}
}

func (c *EndpointsConfig) asks(name string) bool { return c.Only == "" || c.Only == name }

// published translates an object for the protocol.
func (o endpointsObject) published() publish.Object {
	out := publish.Object{Known: true, Port: modelPort, Revision: int64(o.revision), Own: o.own, Complete: true, Store: "store"}
	if !o.own {
		out.Manager, out.Store = publish.KubeAPIServer, ""
	}
	if o.foreign {
		out.Store = "another"
	}
	for i := range maxWriters {
		if o.set.has(i) {
			out.Addresses = append(out.Addresses, addressOf(i))
		}
	}
	return out
}

// facts translates the knowledge of a sidecar for the protocol.
func (w *endpointsWriter) facts(cfg *EndpointsConfig) publish.Facts {
	f := publish.Facts{
		Store: "store", Parent: "store", Family: publish.IPv4, Current: w.seen.published(),
		Fleet: protocol.Fleet{Revision: int64(w.revision)},
	}
	if w.overwritten > 0 && cfg.Off&pauseAfterOverwrite == 0 {
		f.Lost = publish.Overwrites{Times: int(w.overwritten), Manager: publish.KubeAPIServer}
	}
	if w.overwritten > 0 && cfg.Off&firstRepairs != 0 {
		f.Lost.Times = publish.Patience + 1
	}
	if cfg.Off&parentDecides != 0 {
		f.Parent = ""
	}
	for i := range cfg.Nodes {
		r := &protocol.Record{
			ID: protocol.NodeID(addressOf(i)), Alive: true,
			Node: protocol.Node{Roles: protocol.Roles{Controller: true}}, Presence: protocol.Presence{Ready: w.ready.has(i)},
		}
		if w.part.has(i) || cfg.Off&allTakePart != 0 {
			r.Presence.Endpoint = protocol.Endpoint{Address: addressOf(i), Port: modelPort}
		}
		if cfg.Off&readyOnly != 0 {
			r.Presence.Ready = true
		}
		f.Fleet.Records = append(f.Fleet.Records, r)
	}
	return f
}
