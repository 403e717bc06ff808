package protocol

import "fmt"

// FreeSpace is what people do about an etcd of the sidecars' own whose database is full, or nearly.
const FreeSpace = "delete what is not needed, such as old Events, then type: sidecar cluster defrag"

// nearlyFull is the share of the quota, in percent, from which people read what to do. At 100
// etcd refuses writes.
const nearlyFull = 80

// Database is that of an etcd member.
type Database struct {
	Node        string // or the ID of the member
	Size, Quota int64  // in bytes; a quota of 0 is not known
	// Full: etcd refuses writes, because the database of a member has reached its quota.
	Full bool
}

// Used is the share of the quota that the database has, in percent; 0: it is not known.
func (d Database) Used() int64 {
	if d.Quota <= 0 {
		return 0
	}
	return d.Size * 100 / d.Quota
}

// DatabaseWarnings are about databases that are full, or nearly. The alarm is one of the whole etcd, so
// that there is one warning of it.
func DatabaseWarnings(all []Database) []Warning {
	var nearly []Warning
	for _, d := range all {
		if d.Full {
			return []Warning{{Reason: EtcdFull, Message: "the database of etcd is full, so it refuses writes; " + FreeSpace}}
		}
		if used := d.Used(); used >= nearlyFull {
			nearly = append(nearly, Warning{Reason: EtcdNearlyFull, Subject: d.Node, Message: fmt.Sprintf(
				"the database of its etcd member has used %d %% of its quota of %d MiB; at 100 %% etcd refuses writes; %s", used, d.Quota>>20, FreeSpace)})
		}
	}
	return nearly
}
