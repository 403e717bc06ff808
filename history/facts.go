package history

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// Facts are a sidecar's view of its node and the fleet at one moment, as far as it matters later.
type Facts struct {
	Node protocol.NodeID

	// Reached: etcd has answered at least once. EtcdProblem is why it does not answer now; empty: it does.
	Reached     bool
	EtcdProblem string
	// APIServer is why this node's kube-apiserver is not ready; zero: it is, or is not asked.
	APIServer protocol.Verdict
	Override  protocol.Override
	Warnings  []protocol.Warning // that this node reports to the others
	Digest    string             // of this node's bundle
	Version   protocol.Version   // of this node
	Services  []report.Service
	Repairs   int64    // of objects, by this process
	Repaired  []string // the objects of the newest of them, the newest last
	// Pass is when this process completed a pass, which removed Pruned objects: the first of them are PrunedObjects.
	Pass          time.Time
	Pruned        int
	PrunedObjects []string

	// Leading: this node leads, and Blockers are the nodes that the leader waits for.
	Leading  bool
	Blockers []protocol.Blocker

	Leader  protocol.NodeID
	Epoch   int64 // of Leader
	Status  protocol.StatusView
	Fleet   protocol.Fleet  // of revision 0: not known yet
	Store   string          // the store ID; empty: not known
	Members []report.Member // of the etcd that the sidecars run
}

// Happening is one difference between two snapshots of facts, or a condition in one of them.
type Happening struct {
	Kind    Kind
	Node    protocol.NodeID
	Subject string
	Reason  protocol.Reason
	Message string
	Count   int // zero: once
	Objects []string
	// Mark is a number that all sidecars read, so that two leaders give the entry the same ID; 0: there is none.
	Mark int64
	// Since is when it began, if that is known better than from this observation: while a rollback begins no node
	// leads, and the next leader starts later.
	Since time.Time
}

// about identifies the subject of a happening: two happenings with the same one share an entry, which grows.
type about struct {
	kind    Kind
	node    protocol.NodeID
	subject string
	reason  protocol.Reason
}

func (h Happening) about() about { return about{h.Kind, h.Node, h.Subject, h.Reason} }
func (e Entry) about() about     { return about{e.Kind, e.Node, e.Subject, e.Reason} }

// conditions returns the conditions that hold now and will end later. It leaves out gates: the ledger receives each
// verdict of its gate. c is the census of the fleet.
func conditions(f Facts, c *census) []Happening {
	out := lastingHere(f)
	if f.Fleet.Revision == 0 {
		return out
	}
	out = slices.Grow(out, len(c.notable))
	for _, r := range c.notable {
		if r.Counts() && !r.Alive {
			out = append(out, Happening{
				Kind: Node, Node: r.ID, Reason: protocol.NoPresence, Mark: max(r.Presence.Revision, r.Revision),
				Message: "its sidecar does not run, or does not reach etcd",
			})
		}
		if r.Node.Cordon.On() {
			out = append(out, Happening{
				Kind: Cordon, Node: r.ID, Reason: protocol.Cordoned, Mark: r.Revision,
				Message: "taken out of service " + r.Node.Cordon.String(),
			})
		}
	}
	for _, t := range f.Fleet.Turns.Held {
		out = append(out, turnOf(t)...)
	}
	for _, b := range f.Blockers {
		out = append(out, Happening{
			Kind: Blocked, Node: b.Node, Reason: b.Reason, Message: "the leader waits for it: " + b.Message,
		})
	}
	return append(out, underWay(f, c)...)
}

// lastingHere returns the conditions that hold on this node.
func lastingHere(f Facts) []Happening {
	var out []Happening
	if f.Reached && f.EtcdProblem != "" {
		out = append(out, Happening{
			Kind: Etcd, Node: f.Node, Reason: Unreachable, Message: "etcd does not answer this node: " + f.EtcdProblem,
		})
	}
	if f.APIServer.Reason != "" && !f.APIServer.Ready {
		out = append(out, Happening{Kind: APIServer, Node: f.Node, Reason: f.APIServer.Reason, Message: f.APIServer.Message})
	}
	if f.Override.On() {
		out = append(out, Happening{
			Kind: Override, Node: f.Node, Reason: OverrideBegun,
			Message: strings.TrimSpace(fmt.Sprintf("an operator lets the node serve in spite of its gate, until %s %s",
				f.Override.Until.UTC().Format(time.RFC3339), f.Override.Message)),
		})
	}
	for _, w := range f.Warnings {
		out = append(out, Happening{Kind: kindOf(w.Reason), Node: f.Node, Subject: w.Subject, Reason: w.Reason, Message: w.Message})
	}
	return out
}

// kindOf returns the kind of the entry for a warning.
func kindOf(r protocol.Reason) Kind {
	switch r { //nolint:exhaustive // all others are warnings
	case warn.ObjectFailed, warn.Fight, warn.RemovalsHeld:
		return Object
	case warn.BundleRejected, warn.BundleWaits, warn.OtherBundle:
		return Bundle
	case protocol.ServiceFailing, protocol.ServiceNotReady, warn.OptionalServiceFailing, warn.ServicesRejected:
		return Service
	case warn.OverrideRejected:
		return Override
	}
	return Warning
}

// underWay returns the upgrade or rollback of the fleet, if there is one: people asked for a rollback, or the
// objects and the registered nodes are not all of one release.
func underWay(f Facts, c *census) []Happening {
	if r := f.Fleet.Rollback; r.On() {
		return []Happening{{
			Kind: Rollback, Subject: r.To.String(), Reason: Begun, Message: r.String(), Mark: r.Revision, Since: r.Since,
		}}
	}
	if f.Status.Kind != protocol.StatusPresent {
		return nil
	}
	objects := f.Status.Status.ContentRelease
	low, high := c.span(f.Status, objects)
	if low == high {
		return nil
	}
	return []Happening{{
		Kind: Upgrade, Subject: low.String() + " " + high.String(), Reason: Begun,
		Message: fmt.Sprintf("releases %s and %s, objects of %s when it began", low, high, objects),
	}}
}

// Compare returns the momentary changes between two snapshots: they do not last.
func Compare(was, now Facts) []Happening {
	out := compareHere(was, now)
	if was.Fleet.Revision == 0 || now.Fleet.Revision == 0 {
		return out
	}
	if now.Fleet.Rewinds > was.Fleet.Rewinds || was.Store != "" && now.Store != "" && was.Store != now.Store {
		return append(out, Happening{
			Kind: Store, Reason: WentBack, Mark: now.Fleet.Revision,
			Message: "etcd went back to an older state, as after a restore from a backup, or is another one",
		})
	}
	if now.Leader != "" && (now.Leader != was.Leader || now.Epoch != was.Epoch) {
		out = append(out, Happening{
			Kind: Leader, Node: now.Leader, Reason: Elected, Mark: now.Epoch, Message: elected(was, now),
		})
	}
	if text := statusChange(was.Status, now.Status); text != "" {
		out = append(out, Happening{
			Kind: Status, Node: now.Status.Status.Leader, Reason: Changed, Message: text, Mark: now.Status.Revision,
		})
	}
	out = append(out, compareRecords(was.Fleet, now.Fleet)...)
	return append(out, compareMembers(was, now)...)
}

func elected(was, now Facts) string {
	if was.Leader == "" || was.Leader == now.Leader {
		return "it leads"
	}
	return fmt.Sprintf("it leads, after %s", was.Leader)
}

func compareHere(was, now Facts) []Happening {
	var out []Happening
	if was.Digest != "" && (was.Digest != now.Digest || was.Version != now.Version) {
		out = append(out, Happening{
			Kind: Bundle, Node: now.Node, Reason: Changed, Message: fmt.Sprintf("it runs another bundle, of version %s", now.Version),
		})
	}
	for _, s := range now.Services {
		at := slices.IndexFunc(was.Services, func(o report.Service) bool { return o.Name == s.Name })
		if at < 0 || s.Restarts <= was.Services[at].Restarts {
			continue
		}
		out = append(out, Happening{
			Kind: Service, Node: now.Node, Subject: s.Name, Reason: Restarted, Count: s.Restarts - was.Services[at].Restarts,
			Message: fmt.Sprintf("the service %s was started again: %s", s.Name, s.LastExit), // its output may contain secrets
		})
	}
	if n := now.Repairs - was.Repairs; n > 0 {
		out = append(out, Happening{
			Kind: Object, Node: now.Node, Reason: Repaired, Count: int(n), Message: "an object that another client changed was repaired",
			Objects: now.Repaired[max(0, len(now.Repaired)-int(min(n, report.MaxNamed))):],
		})
	}
	if now.Pass.After(was.Pass) && now.Pruned > 0 {
		out = append(out, Happening{
			Kind: Object, Node: now.Node, Reason: Pruned, Count: now.Pruned, Message: "an object that the bundle dropped was removed",
			Objects: now.PrunedObjects,
		})
	}
	return out
}

// Lanes read these texts from messages.
const (
	noStatus       = "no status"
	corruptStatus  = "corrupt"
	registeredWith = "registered with release "
)

// Brief describes the status for people; empty: it was not read.
func Brief(v protocol.StatusView) string {
	switch v.Kind {
	case protocol.StatusPresent:
		return fmt.Sprintf("%s %s, minimum %s", v.Status.State, v.Status.Version, v.Status.MinCompatible)
	case protocol.StatusUndecodable:
		return corruptStatus
	case protocol.StatusAbsent:
		return noStatus
	case protocol.StatusUnknown:
	}
	return ""
}

// statusChange describes the change of the status; empty: nothing that people read changed.
func statusChange(was, now protocol.StatusView) string {
	a, b := Brief(was), Brief(now)
	sameContent := was.Status.Digest == now.Status.Digest && was.Status.Bundle == now.Status.Bundle
	switch {
	case a == "" || b == "" || a == b && sameContent:
		return ""
	case a == b:
		return b + ", with other objects"
	}
	return fmt.Sprintf("%s (before: %s)", b, a)
}

func compareRecords(was, now protocol.Fleet) []Happening {
	var out []Happening
	for before, r := range changedRecords(was, now) {
		if r == nil {
			out = append(out, Happening{
				Kind: Node, Node: before.ID, Reason: Removed, Mark: before.Revision, Message: "its record was deleted",
			})
			continue
		}
		h := Happening{Kind: Node, Node: r.ID, Mark: r.Revision, Reason: Changed}
		switch {
		case before == nil:
			h.Reason, h.Message = Registered, registeredWith+r.Node.Version.String()
		case before.Revision == r.Revision:
			continue
		case before.Problem != r.Problem && r.Problem != "":
			h.Reason, h.Message = protocol.RecordCorrupt, r.Problem
		case before.Node.Version != r.Node.Version:
			h.Message = fmt.Sprintf(registeredWith+"%s (before: %s)", r.Node.Version, before.Node.Version)
		case before.Node.Roles != r.Node.Roles:
			h.Message = fmt.Sprintf("its roles are %s (before: %s)", rolesText(r.Node.Roles), rolesText(before.Node.Roles))
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// changedRecords yields the records that are not the same value in both fleets, each as it was and as it is; nil: that fleet has
// none. Fleets share the values of unchanged records, so thousands of them cost nothing.
func changedRecords(was, now protocol.Fleet) iter.Seq2[*protocol.Record, *protocol.Record] {
	return func(yield func(*protocol.Record, *protocol.Record) bool) {
		old, records := was.Records, now.Records
		for len(old) > 0 || len(records) > 0 {
			if len(old) > 0 && len(records) > 0 && old[0] == records[0] { // nearly all: nothing of these is read
				old, records = old[1:], records[1:]
				continue
			}
			var before, r *protocol.Record
			if len(records) == 0 || len(old) > 0 && old[0].ID <= records[0].ID {
				before, old = old[0], old[1:]
			}
			if len(records) > 0 && (before == nil || records[0].ID == before.ID) {
				r, records = records[0], records[1:]
			}
			if !yield(before, r) {
				return
			}
		}
	}
}

func rolesText(r protocol.Roles) string { return cmp.Or(strings.Join(r.Names(), ", "), "none") }

func compareMembers(was, now Facts) []Happening {
	if len(was.Members) == 0 || len(now.Members) == 0 {
		return nil // not known
	}
	var out []Happening
	compare := func(members, others []report.Member, reason protocol.Reason, mark int64, text string) {
		for _, m := range members {
			if !slices.ContainsFunc(others, func(o report.Member) bool { return o.ID == m.ID }) {
				out = append(out, Happening{
					Kind: Member, Node: protocol.NodeID(m.Node), Subject: m.ID, Reason: reason,
					Message: "member " + m.ID + text, Mark: mark,
				})
			}
		}
	}
	compare(now.Members, was.Members, MemberAdded, 1, " of etcd was added")
	compare(was.Members, now.Members, MemberLeft, 2, " has left etcd")
	return out
}
