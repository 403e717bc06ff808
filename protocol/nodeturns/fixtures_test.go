package nodeturns

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// record is a record with methods that return a changed copy.
type record protocol.Record

func fleetOf(records ...*record) protocol.Fleet {
	var f protocol.Fleet
	for _, r := range records {
		f.Records = append(f.Records, (*protocol.Record)(r))
	}
	slices.SortFunc(f.Records, func(a, b *protocol.Record) int { return cmp.Compare(a.ID, b.ID) })
	return f
}

// controller returns a valid record of a live controller, whose gate is closed.
func controller(id string) *record {
	return &record{
		ID: protocol.NodeID(id), Revision: 5, Alive: true,
		Node: protocol.Node{
			ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true,
			Version: protocol.Version{Release: protocol.Release{Major: 1}},
		},
	}
}

func (r record) dead() *record                  { r.Alive = false; return &r }
func (r record) cordoned() *record              { r.Node.Cordon = protocol.Cordon{Message: "etcd"}; return &r }
func (r record) corrupt(problem string) *record { r.Problem = problem; return &r }
func (r record) worker() *record {
	r.Node.Roles, r.Node.Serves = protocol.Roles{Worker: true}, false
	return &r
}

func (r record) ready() *record {
	r.Presence.Ready, r.Presence.Reason = true, protocol.Ready
	return &r
}

func (r record) overridden() *record {
	r.Presence.Ready, r.Presence.Reason = true, protocol.Overridden
	return &r
}
