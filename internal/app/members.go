package app

import (
	"cmp"
	"fmt"

	"github.com/lockstep-dev/lockstep/cluster"
)

// memberFaults are warnings of voters that are not healthy, of the etcd that the sidecars
// run. Without a majority there are none: the problem of etcd says more then.
func memberFaults(members []cluster.Observed) []string {
	var faulty []cluster.Observed
	voters := 0
	for _, m := range members {
		if m.Learner {
			continue
		}
		voters++
		if !m.Healthy {
			faulty = append(faulty, m)
		}
	}
	if voters-len(faulty) <= voters/2 {
		return nil
	}
	spare := voters - len(faulty) - (voters/2 + 1)
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
