package protocol

import (
	"fmt"
	"time"
)

// rel parses a release of a test.
func rel(s string) (r Release) {
	if _, err := fmt.Sscanf(s, "%d.%d.%d", &r.Major, &r.Minor, &r.Patch); err != nil {
		panic(err)
	}
	return r
}

func ver(s string) Version { return Version{Release: rel(s)} }

// controller returns a valid record of a live controller.
func controller(id, release string) *Record {
	return &Record{
		ID: NodeID(id), Revision: 5, Alive: true,
		Node: Node{ID: NodeID(id), Roles: Roles{Controller: true}, Serves: true, Version: ver(release)},
	}
}

// These return a changed copy.
func (r Record) dead() *Record { r.Alive = false; return &r }
func (r Record) gone(after, gone time.Duration) *Record {
	r.Alive, r.Node.ExpireAfter, r.Gone = false, after, gone
	return &r
}

func (r Record) alive() *Record                  { r.Alive = true; return &r }
func (r Record) needs(reconciler string) *Record { r.Node.MinReconciler = rel(reconciler); return &r }
func (r Record) withdrawn() *Record              { r.Presence.Election = Withdrawn; return &r }
func (r Record) cordoned() *Record               { r.Node.Cordon = Cordon{Message: "etcd"}; return &r }
func (r Record) ready() *Record                  { r.Presence.Ready, r.Presence.Reason = true, Ready; return &r }
func (r Record) corrupt(problem string) *Record  { r.Problem = problem; return &r }
func (r Record) worker() *Record                 { r.Node.Roles, r.Node.Serves = Roles{Worker: true}, false; return &r }

// roleTaken is a record whose controller role people have just taken away.
func (r Record) roleTaken() *Record { r.Node.Roles.Controller = false; return &r }

// at returns a record that is ready, with addresses in the Service.
func (r Record) at(address, secondary string) *Record {
	r.Presence.Endpoint = Endpoint{Address: address, Secondary: secondary, Port: 6443}
	return r.ready()
}

func (r Record) down() *Record { r.Presence.Endpoint.Down = true; return &r }
func (r Record) closed(why Reason) *Record {
	r.Presence.Ready, r.Presence.Reason = false, why
	return &r
}

func (r Record) overridden() *Record {
	r.Presence.Ready, r.Presence.Reason = true, Overridden
	return &r
}

func cp(id string) *Record { return controller(id, "1.0.0") }

// given returns the facts of a leader "me" of release 1.1.0, A 1.0.0, digest
// "d1.1", epoch 7.
func given(s StatusView, records ...*Record) Input {
	return Input{
		Local: Local{
			ID: "me", Version: ver("1.1.0"), Digest: "d1.1", Epoch: 7,
			Constraints: Constraints{MinReconciler: rel("1.0.0"), MinAPIServer: rel("1.0.0")},
		},
		Fleet:  Fleet{Revision: 100, Records: append([]*Record{controller("me", "1.1.0")}, records...)},
		Status: s,
	}
}

// of gives the leader's bundle a name.
func (in Input) of(bundle string) Input { in.Local.Bundle = bundle; return in }

func (in Input) replaces(from, to string) Input {
	in.Replacement = Replacement{From: from, To: to, Revision: 60}
	return in
}

func (s Status) of(bundle string) Status   { s.Bundle = bundle; return s }
func (c Content) of(bundle string) Content { c.Bundle = bundle; return c }
func (r Record) runs(bundle, digest string) *Record {
	r.Node.Bundle, r.Node.Digest = bundle, digest
	return &r
}

func (in Input) rollingBack(to string) Input {
	in.Fleet.Rollback = Rollback{To: rel(to), Revision: 9}
	return in
}

func (in Input) mark(m Mark) Input         { in.Mark = m; return in }
func (in Input) progress(p Progress) Input { in.Progress = p; return in }

// presentStatus returns a status that was read at revision 50.
func presentStatus(s Status) StatusView {
	return StatusView{Kind: StatusPresent, Status: s, Revision: 50}
}

func absentStatus() StatusView { return StatusView{Kind: StatusAbsent} }

func corruptStatus() StatusView {
	return StatusView{Kind: StatusUndecodable, Problem: "garbage", Revision: 50}
}

// done is the status that a leader of release 1.0.0 left.
func doneStatus(minimum string) Status {
	return Status{
		State: Done, Version: ver("1.0.0"), MinCompatible: rel(minimum), Leader: "old", Epoch: 3,
		Digest: "d1.0", ContentRelease: rel("1.0.0"), ContentEpoch: 4,
	}
}

// target is the status that "me" wants, as another leader of its release wrote
// it.
func targetStatus() Status {
	return Status{
		State: Done, Version: ver("1.1.0"), MinCompatible: rel("1.0.0"), Leader: "old", Epoch: 3,
		Digest: "d1.1", ContentRelease: rel("1.1.0"), ContentEpoch: 4,
	}
}

// working is the target of "me" while it works on it.
func workingStatus() Status {
	s := targetStatus()
	s.State, s.Version, s.Leader, s.Epoch = Working, ver("1.0.0"), "me", 7
	return s
}

func ownContent(epoch int64) Content {
	return Content{
		Release: rel("1.1.0"), Digest: "d1.1", Epoch: epoch,
		Constraints: Constraints{MinReconciler: rel("1.0.0"), MinAPIServer: rel("1.0.0")},
	}
}

func contentOf(release, a string, epoch int64) Content {
	return Content{Release: rel(release), Digest: "d" + release, Epoch: epoch, Constraints: Constraints{MinAPIServer: rel(a)}}
}

func (s Status) by(leader string, epoch int64) Status {
	s.Leader, s.Epoch = NodeID(leader), epoch
	return s
}
