package publish

import "github.com/lockstep-dev/lockstep/protocol"

// record is a record with methods that return a changed copy.
type record protocol.Record

func fleetOf(revision int64, records ...*record) protocol.Fleet {
	f := protocol.Fleet{Revision: revision}
	for _, r := range records {
		f.Records = append(f.Records, (*protocol.Record)(r))
	}
	return f
}

// cp returns a valid record of a live controller.
func cp(id string) *record {
	return &record{
		ID: protocol.NodeID(id), Revision: 5, Alive: true,
		Node: protocol.Node{
			ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true,
			Version: protocol.Version{Release: protocol.Release{Major: 1}},
		},
	}
}

// at returns a record that is ready, with addresses in the Service.
func (r record) at(address, secondary string) *record {
	r.Presence.Endpoint = protocol.Endpoint{Address: address, Secondary: secondary, Port: 6443}
	return r.ready()
}

func (r record) onPort(port int) *record { r.Presence.Endpoint.Port = port; return &r }
func (r record) down() *record           { r.Presence.Endpoint.Down = true; return &r }
func (r record) dead() *record           { r.Alive = false; return &r }
func (r record) cordoned() *record       { r.Node.Cordon = protocol.Cordon{Message: "etcd"}; return &r }
func (r record) worker() *record {
	r.Node.Roles, r.Node.Serves = protocol.Roles{Worker: true}, false
	return &r
}

func (r record) ready() *record {
	r.Presence.Ready, r.Presence.Reason = true, protocol.Ready
	return &r
}

func (r record) leading() *record {
	r = *r.ready()
	r.Presence.Election = protocol.Leading
	return &r
}

func (r record) closed(why protocol.Reason) *record {
	r.Presence.Ready, r.Presence.Reason = false, why
	return &r
}

func (r record) overridden() *record {
	r.Presence.Ready, r.Presence.Reason = true, protocol.Overridden
	return &r
}
