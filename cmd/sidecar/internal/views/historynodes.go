package views

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/protocol"
)

// checkKnown returns an error if neither the fleet nor the history has a node, but others. An empty ID: all nodes.
func checkKnown(ctx context.Context, client reach.Etcd, id protocol.NodeID, all []history.Entry) error {
	if id == "" {
		return nil
	}
	known := map[protocol.NodeID]bool{}
	for _, e := range all {
		if e.Concerns(id) {
			return nil
		}
		for node := range e.Out {
			known[node] = true
		}
		known[e.Node] = true
	}
	registered, err := fleet.List(ctx, client.Client)
	if err != nil {
		return err
	}
	for _, r := range registered.Records {
		known[r.ID] = true
	}
	delete(known, "")
	if known[id] || len(known) == 0 {
		return nil
	}
	var names []string
	for _, node := range slices.Sorted(maps.Keys(known)) {
		names = append(names, terminal.Clean(string(node)))
	}
	return fmt.Errorf("--node: no node of the ID %q is known, registered now or in the history; known are %s", id, reach.FirstKnown(names))
}
