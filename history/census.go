package history

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// census answers what the ledger asks about all records of a fleet. It goes from one fleet to the next by the records that
// changed, so that one of thousands costs little. The zero census is of a fleet without records.
type census struct {
	// notable are the records of nodes that are out of service or cordoned, sorted by ID.
	notable []*protocol.Record
	// controllers is how many valid controllers there are of each release and bundle.
	controllers map[provenance]int
}

// provenance is the release and the bundle that a node registered with.
type provenance struct {
	release protocol.Release
	bundle  string
}

// follow goes from the fleet whose census it is to the next one.
func (c *census) follow(was, now protocol.Fleet) {
	if c.controllers == nil {
		c.controllers = map[provenance]int{}
	}
	for before, r := range changedRecords(was, now) {
		if before != nil {
			c.remove(before)
		}
		if r != nil {
			c.add(r)
		}
	}
}

func (c *census) add(r *protocol.Record) {
	if from, ok := provenanceOf(r); ok {
		c.controllers[from]++
	}
	if outOfService(r) || r.Node.Cordon.On() {
		i, _ := slices.BinarySearchFunc(c.notable, r.ID, byID)
		c.notable = slices.Insert(c.notable, i, r)
	}
}

func (c *census) remove(r *protocol.Record) {
	if from, ok := provenanceOf(r); ok {
		if c.controllers[from]--; c.controllers[from] == 0 {
			delete(c.controllers, from)
		}
	}
	if i, found := slices.BinarySearchFunc(c.notable, r.ID, byID); found {
		c.notable = slices.Delete(c.notable, i, i+1)
	}
}

func byID(r *protocol.Record, id protocol.NodeID) int { return cmp.Compare(r.ID, id) }

// provenanceOf returns false for a node that is no controller, or whose record is corrupt.
func provenanceOf(r *protocol.Record) (provenance, bool) {
	return provenance{r.Node.Version.Release, r.Node.Bundle}, r.Problem == "" && r.Node.Roles.Controller
}

// outOfService reports whether clients of the node's kube-apiserver are not served. A node that is not alive is out of service.
func outOfService(r *protocol.Record) bool { return r.Counts() && !r.Serves() }

// serves reports whether every node is in service.
func (c *census) serves() bool { return !slices.ContainsFunc(c.notable, outOfService) }

// release returns the release that all controllers registered with; false: they differ, or there is none.
func (c *census) release() (out protocol.Release, one bool) {
	for from := range c.controllers {
		if one && out != from.release {
			return out, false
		}
		out, one = from.release, true
	}
	return out, one
}

// span returns the lowest and the highest of a release and of those of the controllers that bring objects here: their bundle
// is not foreign to the status.
func (c *census) span(v protocol.StatusView, release protocol.Release) (low, high protocol.Release) {
	low, high = release, release
	for from := range c.controllers {
		if protocol.ForeignBundle(v, from.bundle) != "" {
			continue
		}
		if from.release.Less(low) {
			low = from.release
		}
		if high.Less(from.release) {
			high = from.release
		}
	}
	return low, high
}
