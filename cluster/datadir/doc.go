// Package datadir owns the data directory of a node that is a member of its own
// etcd cluster: where each file is, the lock, and the marker, which says whose
// directory it is and how far its creation or its join has come.
//
//	cluster.json   the marker
//	members.json   the members as this node knew them last
//	pki/           ca.crt, ca.key, node.crt, node.key
//	etcd/          what etcd keeps; only etcd writes there
//
// The lock is on the directory itself, so no file of it can be deleted to get
// around the lock. An existing directory is checked before anything is written: a
// refusal changes nothing (docs/clusters.md#refusals).
//
// It starts no goroutine and knows no network. Package cluster has the order of the
// steps, package cluster/pki what is in the certificates.
package datadir
