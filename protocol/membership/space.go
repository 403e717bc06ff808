package membership

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// FreeSpace is the remedy for a full or nearly full database of the etcd that the sidecars run.
const FreeSpace = "delete what is not needed, such as old Events, then type: sidecar cluster defrag"

// nearlyFull is the share of the quota, in percent, from which a sidecar warns. At 100 etcd
// refuses writes.
const nearlyFull = 80

// Database describes the database of an etcd member.
type Database struct {
	Node        string // or the ID of the member
	Size, Quota int64  // in bytes; a quota of 0 is not known
	// Full: etcd refuses writes, because the database of a member reached its quota.
	Full bool
}

// Used returns the used share of the quota, in percent; 0: it is not known.
func (d Database) Used() int64 {
	if d.Quota <= 0 {
		return 0
	}
	return d.Size * 100 / d.Quota
}

// DatabaseWarnings warn of databases that are full, or nearly. A full database raises one alarm for the
// whole etcd, and so one warning.
func DatabaseWarnings(all []Database) []protocol.Warning {
	var nearly []protocol.Warning
	for _, d := range all {
		if d.Full {
			return []protocol.Warning{{Reason: protocol.EtcdFull, Message: "the database of etcd is full, so it refuses writes; " + FreeSpace}}
		}
		if used := d.Used(); used >= nearlyFull {
			nearly = append(nearly, protocol.Warning{Reason: protocol.EtcdNearlyFull, Subject: d.Node, Message: fmt.Sprintf(
				"the database of its etcd member has used %d %% of its quota of %d MiB; at 100 %% etcd refuses writes; %s", used, d.Quota>>20, FreeSpace)})
		}
	}
	return nearly
}
