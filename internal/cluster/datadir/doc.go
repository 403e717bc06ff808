// Package datadir owns the data directory of a node that is a member of its own
// etcd cluster: where each file is, the lock, and the marker, which contains
// the directory's node and the phase of its creation or join.
//
//	cluster.json   the marker
//	members.json   the members as this node knew them last
//	pki/           ca.crt, ca.key, node.crt, node.key
//	etcd/          the data of etcd; only etcd writes there
//
// The lock is on the directory itself, so no file of it can be deleted to get
// around the lock. An existing directory is checked before anything is written: a
// refusal changes nothing (docs/clusters.md#refusals).
//
// It starts no goroutine and knows no network. Package cluster owns the order of
// the steps, and package cluster/pki the content of the certificates.
package datadir
