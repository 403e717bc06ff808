package noderecord

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// rel parses a release of a test.
func rel(s string) (r protocol.Release) {
	if _, err := fmt.Sscanf(s, "%d.%d.%d", &r.Major, &r.Minor, &r.Patch); err != nil {
		panic(err)
	}
	return r
}

func ver(s string) protocol.Version { return protocol.Version{Release: rel(s)} }

// controller returns a valid record of a live controller.
func controller(id, release string) *protocol.Record {
	return &protocol.Record{
		ID: protocol.NodeID(id), Revision: 5, Alive: true,
		Node: protocol.Node{ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true, Version: ver(release)},
	}
}

// gone returns a controller that is not alive, and whose record may expire.
func gone(id string, after, since time.Duration) *protocol.Record {
	r := controller(id, "1.0.0")
	r.Alive, r.Node.ExpireAfter, r.Gone = false, after, since
	return r
}
