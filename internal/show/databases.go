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

// database describes the database of an etcd member.
type database struct {
	node        string // or the ID of the member
	size, quota int64  // in bytes; a quota of 0 is not known
	// full: etcd refuses writes, because the database of a member reached its quota.
	full bool
}

// used returns the used share of the quota, in percent; 0: it is not known.
func (d database) used() int64 {
	if d.quota <= 0 {
		return 0
	}
	return d.size * 100 / d.quota
}

// databaseWarnings warn of databases that are full, or nearly. A full database raises one alarm for the
// whole etcd, and so one warning.
func databaseWarnings(all []database) []protocol.Warning {
	var nearly []protocol.Warning
	for _, d := range all {
		if d.full {
			return []protocol.Warning{{Reason: warn.EtcdFull, Message: "the database of etcd is full, so it refuses writes; " + cluster.FreeSpace}}
		}
		if used := d.used(); used >= nearlyFull {
			nearly = append(nearly, protocol.Warning{Reason: warn.EtcdNearlyFull, Subject: d.node, Message: fmt.Sprintf(
				"the database of its etcd member has used %d %% of its quota of %d MiB; at 100 %% etcd refuses writes; %s", used, d.quota>>20, cluster.FreeSpace)})
		}
	}
	return nearly
}
