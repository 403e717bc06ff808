package quorum

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Loss is a node that is to lose the role of a member.
type Loss struct {
	Node protocol.NodeID
	// Force: also if no voter may fail after that.
	Force bool
}

// MayLose returns a function that asks whether the node may lose the role. It returns the
// conditions of the write that takes the role: the answer holds only as long as they do. A node
// that is no member may lose it.
func MayLose(client *etcd.Client, l Loss) func(context.Context) ([]clientv3.Cmp, error) {
	return func(ctx context.Context) ([]clientv3.Cmp, error) {
		all, s, err := listWithRoles(ctx, client)
		switch {
		case err != nil:
			return nil, err
		case s.cluster == nil:
			return nil, nil // the sidecars do not run this etcd
		}
		for _, v := range all {
			if v.Node != l.Node {
				continue
			}
			if err := mayRemove(all, v, endCluster); err != nil {
				return nil, err
			}
			if err := l.costs(all, v); err != nil {
				return nil, err
			}
		}
		return s.unchanged(client), nil
	}
}

// costs returns what the cluster loses with a voter that may be removed; nil: nothing, or Force is set.
func (l Loss) costs(all []View, target View) error {
	if l.Force || target.Learner {
		return nil
	}
	others, stay, _ := otherVoters(all, target)
	var loses string
	switch membership.JudgeCost(target.voter(), others) {
	case membership.CostsNothing:
		return nil
	case membership.CostsCopy:
		loses = "one voter, with the only copy of the data: while that node is down, etcd is too, and a lost disk loses all"
	default: // no voter may fail any more
		loses = count(stay) + ", and accepts no writes while one of them is down: now one may fail"
	}
	return fmt.Errorf("%w: without node %q etcd has %s; first make another node a voter (sidecar node set-roles, or sidecar cluster token create), or add --force",
		ErrRefused, l.Node, loses)
}
