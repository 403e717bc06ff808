package publish

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Node is a controller, and whether its addresses belong in the Service.
type Node struct {
	ID       protocol.NodeID
	Endpoint protocol.Endpoint
	Serves   bool
	Reason   protocol.Reason // Ready, Overridden, or why the addresses do not belong in it
	Message  string          // the same, for people
}

// Nodes returns all controllers, sorted by ID.
func Nodes(f protocol.Fleet) []Node {
	port, out := commonPort(f), []Node{}
	for _, r := range f.Records {
		if !r.MayServe() && !r.Presence.Endpoint.TakesPart() {
			continue
		}
		n := Node{ID: r.ID, Endpoint: r.Presence.Endpoint}
		n.Reason, n.Message = whyOutside(r, port)
		n.Serves = n.Reason == protocol.Ready || n.Reason == protocol.Overridden
		out = append(out, n)
	}
	return out
}

func whyOutside(r *protocol.Record, port int) (protocol.Reason, string) {
	e := r.Presence.Endpoint
	switch {
	case !r.Alive:
		return protocol.NoPresence, "its sidecar does not run, or does not reach etcd"
	case !e.TakesPart(): // its gate says nothing about the Service
		return NotPublishing, "its sidecar runs without --kubernetes-service"
	case r.Node.Cordon.On() && !r.InService(): // before the closed gate, which it explains
		return protocol.Cordoned, fmt.Sprintf("it was taken out of service; to end that now: %s", r.Node.Cordon.Remedy(r.ID))
	case !r.InService():
		return whyClosed(r.Presence), "its gate is closed"
	case !r.Serves():
		return r.WhyServes()
	case e.Port != port: // last: a node out of service needs that first
		return PortDiffers, fmt.Sprintf("its kube-apiserver serves on port %d, and the others on %d: the Service has one port, so all of them need the same", e.Port, port)
	}
	if r.Presence.Reason == protocol.Overridden {
		return protocol.Overridden, "its gate is open by an override alone"
	}
	return protocol.Ready, "its gate is open"
}

// whyClosed returns the reason of a closed gate. The presence may contain any reason.
func whyClosed(p protocol.Presence) protocol.Reason {
	if p.Reason == protocol.Ready || p.Reason == protocol.Overridden {
		return protocol.NotRegistered
	}
	return cmp.Or(p.Reason, protocol.NotRegistered)
}

// takesTraffic reports whether clients can use a node, by its presence.
func takesTraffic(r *protocol.Record) bool {
	return r.Serves() && r.Presence.Endpoint.TakesPart()
}

// commonPort returns the most common port of the nodes that take traffic. If several are
// equally common, it is the first of them in the order of the nodes.
func commonPort(f protocol.Fleet) int {
	best, most, nodes := 0, 0, map[int]int{} // nodes by port
	for _, r := range f.Records {
		if takesTraffic(r) {
			nodes[r.Presence.Endpoint.Port]++
		}
	}
	for _, r := range f.Records {
		if port := r.Presence.Endpoint.Port; takesTraffic(r) && nodes[port] > most {
			best, most = port, nodes[port]
		}
	}
	return best
}

// Families returns the families of the addresses that clients can use. The first
// is the Service's own family: the family of the first node's first address.
func Families(f protocol.Fleet) []Family {
	var out []Family
	for _, first := range []bool{true, false} {
		for _, r := range f.Records {
			e := r.Presence.Endpoint
			family := FamilyOf(e.Address)
			if !first {
				family = FamilyOf(e.Secondary)
			}
			if takesTraffic(r) && family != FamilyUnset && !slices.Contains(out, family) {
				out = append(out, family)
			}
		}
	}
	return out
}

// Object is the present content of an EndpointSlice, or of the Endpoints.
type Object struct {
	Known     bool     // it was read, or it does not exist
	Addresses []string // sorted, without duplicates
	Port      int
	Revision  int64  // at which its addresses were ready; 0: Lockstep did not write it
	Store     string // of that revision, from the annotation, which any writer can set
	Own       bool   // Lockstep wrote the addresses last
	Manager   string // the field manager that wrote them last; empty: unknown
	Complete  bool   // labels, conditions and the name of the port are as Lockstep writes them
}

// OfAnotherStore reports whether an object lists addresses and carries the ID of another
// store than store.
func (o Object) OfAnotherStore(store string) bool {
	return len(o.Addresses) > 0 && o.Store != "" && o.Store != store
}

// overwritten reports whether another client replaced Lockstep's addresses or port. An
// empty object does not count: Lockstep writes it again at once, whichever client emptied it.
func overwritten(was, now Object) bool {
	return was.Own && !now.Own && len(now.Addresses) > 0 &&
		(!slices.Equal(was.Addresses, now.Addresses) || was.Port != now.Port)
}

// Overwrites counts how often other clients replaced Lockstep's content. The zero value:
// never, as far as this sidecar knows.
type Overwrites struct {
	Times   int           // in a row
	Ago     time.Duration // since the last time
	Manager string        // the last client's field manager, as it calls itself
}

// KubeAPIServer is the field manager of a kube-apiserver that writes the Service itself.
// Any client can claim it.
const KubeAPIServer = "kube-apiserver"

const (
	firstPause = time.Minute
	maxPause   = 10 * time.Minute
)

// Patience is how many overwrites in a row Lockstep repairs at once, before the first
// pause and after each pause.
const Patience = 2

// After counts a change of an object. kept is how long Lockstep's content was unchanged before; 0: that is
// not known. It reports whether the change counts: further overwrites during a pause are part of the one
// that began it.
func (o Overwrites) After(was, now Object, kept time.Duration) (Overwrites, bool) {
	if !overwritten(was, now) {
		return o, false
	}
	if kept >= forgetOverwritesAfter {
		o = Overwrites{}
	}
	if o.Times > 0 && o.Ago < o.pause() {
		return o, false
	}
	return Overwrites{Times: o.Times + 1, Manager: now.Manager}, true
}

// pause is how long Lockstep leaves an object alone after an overwrite. Only a steady writer
// causes a pause, and must prove steady again after each: a single write must not last. A
// kube-apiserver compares every ten seconds and always repeats.
func (o Overwrites) pause() time.Duration {
	if o.Times <= 0 || o.Times%(Patience+1) != 0 {
		return 0
	}
	return min(maxPause, firstPause<<min(o.Times/(Patience+1)-1, 10))
}

// forgetOverwritesAfter is how long Lockstep's content must stay unchanged until the
// overwrites count as over.
const forgetOverwritesAfter = time.Minute

// Kind says whether a sidecar writes an object now.
type Kind int

// The kinds. The zero value: not decided.
const (
	_     Kind = iota
	Keep       // it stays as it is
	Wait       // it needs a write, but may not be written now
	Write      // it is written, unless it changed after it was read
)

// Step says how a sidecar treats an object, and why.
type Step struct {
	Kind    Kind
	Reason  protocol.Reason
	Message string

	Addresses []string // to write
	Port      int
	Revision  int64
	Retry     time.Duration // when a wait ends by itself; 0: never
}

// Facts are the input of Next.
type Facts struct {
	// Fleet is a linearizable snapshot, taken after Current was read. So if its revision
	// is lower than Current's, the store went back, and the snapshot counts.
	Fleet   protocol.Fleet
	Store   string // the store ID in that snapshot; empty: none
	Parent  string // the store ID on the parent of the objects; empty: unknown, or none
	Family  Family // of the object
	Second  bool   // it is a slice of a family other than the Service's
	Current Object
	Lost    Overwrites
}

// Next decides whether a sidecar writes an object (docs/protocol-endpoints.md#kubernetes-service). The
// first rule that applies decides. It does not compare revisions: an object that was read before
// the snapshot, and is unchanged when the write lands, cannot be newer than the snapshot.
func Next(f Facts) Step {
	addresses, port := desired(f.Fleet, f.Family)
	now := f.Current
	switch {
	case !now.Known:
		return waitFor(EndpointsUnread, "the kube-apiserver of this node has not shown the Service yet")
	case f.Store == "":
		return waitFor(EndpointsUnread, "the store in etcd has no ID yet")
	// Before anything is judged by the fleet: the object may belong to another control plane.
	case now.OfAnotherStore(f.Store) && f.Parent != f.Store:
		return waitForParent(f)
	// Before the comparison, which would remove the last addresses: clients in pods would reach none.
	case len(addresses) == 0 && !f.empties():
		return keepLast(f)
	// No client reads an empty slice. Other writers' addresses in it are theirs.
	case len(addresses) == 0 && (len(now.Addresses) == 0 || !now.Own):
		return Step{Kind: Keep, Reason: Published, Message: "no node in service has an address of this family"}
	case now.Revision > 0 && now.Store == f.Store && now.Complete && now.Port == port && slices.Equal(now.Addresses, addresses):
		return Step{Kind: Keep, Reason: Published, Message: "the addresses of the nodes in service are published"}
	}
	if len(now.Addresses) > 0 && !now.Own {
		if wait, held := holdBack(f); held {
			return wait
		}
	}
	return Step{
		Kind: Write, Reason: Pending, Message: "the nodes in service have changed",
		Addresses: addresses, Port: port, Revision: f.Fleet.Revision,
	}
}

// empties reports whether a slice without an address of a node in service is emptied
// (docs/protocol-endpoints.md#second-family).
func (f Facts) empties() bool { return f.Second && len(Families(f.Fleet)) > 0 }

func keepLast(f Facts) Step {
	who := "no node is ready"
	if len(Families(f.Fleet)) > 0 {
		who = fmt.Sprintf("no node with an %s address is ready, and the Service has that family", f.Family)
	}
	return Step{Kind: Keep, Reason: NoneReady, Message: who + ", so the last addresses stay"}
}

// ParentRetry is how long a sidecar uses the ID that it read from the parent.
const ParentRetry = 10 * time.Second

// waitForParent leaves an object to the sidecars of another store. Only the parent proves that
// such sidecars exist: clients cannot change it as easily as the Service.
func waitForParent(f Facts) Step {
	out := waitFor(protocol.OtherStore, fmt.Sprintf("the Service has the ID of another store (%s, this one is %s), and the ConfigMap lockstep in kube-system, which decides, was not read or has no ID", f.Current.Store, f.Store))
	if f.Parent != "" {
		out.Message = fmt.Sprintf("the sidecars of another store (%s, this one is %s) write the Service: stop them, or give this store that ID: sidecar store adopt", f.Parent, f.Store)
	}
	out.Retry = ParentRetry
	return out
}

func waitFor(r protocol.Reason, message string) Step {
	return Step{Kind: Wait, Reason: r, Message: message}
}

// holdBack decides whether Lockstep leaves an object to the client that wrote it. Lockstep
// takes the object over only if every node in service takes part, and not while another
// client keeps overwriting it.
func holdBack(f Facts) (wait Step, held bool) {
	if n := len(outsiders(f.Fleet)); n > 0 {
		return waitFor(NotPublishing, fmt.Sprintf("%s is in service and its sidecar runs without --kubernetes-service, so %s goes on writing the Service; "+
			"start every kube-apiserver with --endpoint-reconciler-type=none and every sidecar with --kubernetes-service",
			outsiders(f.Fleet)[0], cmp.Or(f.Current.Manager, "another client"))), true
	}
	rest := f.Lost.pause() - f.Lost.Ago
	if f.Lost.Times == 0 || rest <= 0 {
		return Step{}, false
	}
	if f.Lost.Manager == KubeAPIServer {
		wait = waitFor(protocol.ReconcilerRuns, "a kube-apiserver writes the Service itself, and replaces what Lockstep writes: start every kube-apiserver with --endpoint-reconciler-type=none")
		if names := reconcilers(f); names != "" {
			wait.Message += "; it now has the address of " + names + " alone, so it is probably that one"
		}
		wait.Message += "; if all have it, another client claims that name: the audit log has its user"
	} else {
		wait = waitFor(protocol.OtherWriter, fmt.Sprintf("a client that calls itself %q (field manager) replaces what Lockstep writes: stop it; the audit log has its user", f.Lost.Manager))
	}
	wait.Retry = rest
	return wait, true
}

// desired returns the addresses of the nodes in service, sorted, and their port.
func desired(f protocol.Fleet, family Family) (addresses []string, port int) {
	port = commonPort(f)
	for _, r := range f.Records {
		e := r.Presence.Endpoint
		if address := addressOf(e, family); address != "" && takesTraffic(r) && e.Port == port {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses), port
}

const (
	// turnAfter is the delay between two sidecars that want to write the same change.
	turnAfter = 250 * time.Millisecond
	maxTurns  = 8
)

// Delay is how long a sidecar waits before it writes a change that others see as
// well: the leader writes at once, then the nodes that take traffic in the order of
// their IDs, then the others. Each checks first whether another sidecar wrote it.
func Delay(f protocol.Fleet, own protocol.NodeID) time.Duration {
	var order []protocol.NodeID
	for _, r := range f.Records {
		switch {
		case !takesTraffic(r):
		case r.Presence.Election == protocol.Leading:
			order = slices.Insert(order, 0, r.ID)
		default:
			order = append(order, r.ID)
		}
	}
	turn := slices.Index(order, own)
	if turn < 0 {
		turn = len(order)
	}
	return time.Duration(min(turn, maxTurns)) * turnAfter
}
