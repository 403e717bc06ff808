package upgrade

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// record is a record with methods that return a changed copy.
type record protocol.Record

// of returns the records of a fleet.
func of(records ...*record) []*protocol.Record {
	out := make([]*protocol.Record, 0, len(records))
	for _, r := range records {
		out = append(out, (*protocol.Record)(r))
	}
	return out
}

// rel parses a release of a test.
func rel(s string) (r protocol.Release) {
	if _, err := fmt.Sscanf(s, "%d.%d.%d", &r.Major, &r.Minor, &r.Patch); err != nil {
		panic(err)
	}
	return r
}

func ver(s string) protocol.Version { return protocol.Version{Release: rel(s)} }

// controller returns a valid record of a live controller.
func controller(id, release string) *record {
	return &record{
		ID: protocol.NodeID(id), Revision: 5, Alive: true,
		Node: protocol.Node{ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true, Version: ver(release)},
	}
}

func (r record) dead() *record                  { r.Alive = false; return &r }
func (r record) withdrawn() *record             { r.Presence.Election = protocol.Withdrawn; return &r }
func (r record) cordoned() *record              { r.Node.Cordon = protocol.Cordon{Message: "etcd"}; return &r }
func (r record) corrupt(problem string) *record { r.Problem = problem; return &r }
func (r record) worker() *record {
	r.Node.Roles, r.Node.Serves = protocol.Roles{Worker: true}, false
	return &r
}
func (r record) publishes() *record { r.Presence.Endpoint.Address = "10.0.0.1"; return &r }

func (r record) down() *record { r.Presence.Endpoint.Down = true; return &r }

func (r record) gone(after, gone time.Duration) *record {
	r.Alive, r.Node.ExpireAfter, r.Gone = false, after, gone
	return &r
}

// roleTaken is a record whose controller role people have just taken away.
func (r record) roleTaken() *record { r.Node.Roles.Controller = false; return &r }

func (r record) runs(bundle, digest string) *record {
	r.Node.Bundle, r.Node.Digest = bundle, digest
	return &r
}

// presentStatus returns a status that was read at revision 50.
func presentStatus(s protocol.Status) protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusPresent, Status: s, Revision: 50}
}

func absentStatus() protocol.StatusView { return protocol.StatusView{Kind: protocol.StatusAbsent} }

func corruptStatus() protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusUndecodable, Problem: "garbage", Revision: 50}
}

// doneStatus is the status that a leader of release 1.0.0 left.
func doneStatus(minimum string) protocol.Status {
	return protocol.Status{
		State: protocol.Done, Version: ver("1.0.0"), MinCompatible: rel(minimum), Leader: "old", Epoch: 3,
		Digest: "d1.0", ContentRelease: rel("1.0.0"), ContentEpoch: 4,
	}
}

func ofBundle(s protocol.Status, bundle string) protocol.Status { s.Bundle = bundle; return s }
