package show

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// nearlyFull is the share of the quota, in percent, from which a sidecar warns. At 100 etcd
// refuses writes.
const nearlyFull = 80

// usedQuota returns the share of its quota that the database of a member uses, in percent; 0: it is not known.
func usedQuota(m cluster.Observed) int64 {
	if m.Quota <= 0 {
		return 0
	}
	return m.DBSize * 100 / m.Quota
}

// databaseWarnings warn of databases that are full, or nearly. A full database raises one alarm for the
// whole etcd, and so one warning.
func databaseWarnings(members []cluster.Observed) []protocol.Warning {
	var nearly []protocol.Warning
	for _, m := range members {
		if m.Full {
			return []protocol.Warning{{Reason: warn.EtcdFull, Message: "the database of etcd is full, so it refuses writes; " + cluster.FreeSpace}}
		}
		if used := usedQuota(m); used >= nearlyFull {
			nearly = append(nearly, protocol.Warning{Reason: warn.EtcdNearlyFull, Subject: nameOf(m), Message: fmt.Sprintf(
				"the database of its etcd member has used %d %% of its quota of %d MiB; at 100 %% etcd refuses writes; %s", used, m.Quota>>20, cluster.FreeSpace)})
		}
	}
	return nearly
}
