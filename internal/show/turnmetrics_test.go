package show

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestCordonedOff: a cordon counts while it is in force, for machines that are off.
func TestCordonedOff(t *testing.T) {
	now := time.Unix(1000, 0)
	node := func(alive, controller bool, cordon protocol.Cordon) *protocol.Record {
		return &protocol.Record{Alive: alive, Node: protocol.Node{Roles: protocol.Roles{Controller: controller}, Cordon: cordon}}
	}
	forever, turn, over := protocol.Cordon{Since: now}, protocol.Cordon{Since: now, Turn: true}, protocol.Cordon{Since: now, Until: now}
	f := protocol.Fleet{Records: []*protocol.Record{
		node(false, true, forever), node(false, true, turn), // these two
		node(true, true, forever), node(false, false, forever), node(false, true, over), node(false, true, protocol.Cordon{}),
	}}
	if got := cordonedOff(f, now); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}
