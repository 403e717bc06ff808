package app

import (
	"cmp"
	"fmt"

	"github.com/lockstep-dev/lockstep/cluster"
)

// voters returns how many members vote, and those of them that are not healthy.
func voters(members []cluster.Observed) (all int, unhealthy []cluster.Observed) {
	for _, m := range members {
		if m.Learner {
			continue
		}
		all++
		if !m.Healthy {
			unhealthy = append(unhealthy, m)
		}
	}
	return all, unhealthy
}

// memberFaults are warnings of voters that are not healthy, of the etcd that the sidecars
// run. Without a majority there are none: the problem of etcd says more then.
func memberFaults(members []cluster.Observed) []string {
	all, faulty := voters(members)
	spare := all - len(faulty) - (all/2 + 1) // so many more may stop
	if spare < 0 {
		return nil
	}
	var out []string
	for _, m := range faulty {
		name := cmp.Or(m.Node, m.ID)
		text := fmt.Sprintf("the etcd member of %s (%s) is not healthy: start its sidecar, or if the node is off for good, type on another node: sidecar cluster remove %s", name, m.Address, name)
		if spare == 0 {
			text += "; etcd accepts no writes if another one of its voters stops"
		}
		out = append(out, text)
	}
	return out
}
