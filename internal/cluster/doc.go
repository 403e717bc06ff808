// Package cluster brings this sidecar into its etcd cluster: one that runs
// elsewhere, or one whose members the sidecars run themselves (docs/clusters.md).
//
//	New --> ConnectingExternal --+
//	    \-> CreatingCluster -----+--> Running
//	    \-> JoiningCluster ------+--> Failed
//	    \-> RestartingMember ----+
//
// state.go has the table of these transitions. Each way is a list of steps in a
// file of its own: create.go, join.go, restart.go. Each step can be run again, so a
// sidecar that was killed anywhere starts with the first step again. A step that
// fails because of the network, or because a majority is missing, is repeated, and
// the status shows its problem. Any other error ends in Failed.
//
// The ways share a flow. The data directory, its marker and the process of the member are a
// resident, which alone deletes and moves data while a sidecar runs, and asks the protocol
// before that; otherwise only package backup does, to restore a snapshot. While the
// node is in its cluster, a change takes the steps by which it becomes a member and leaves:
//
//	role.ControlPlane --> Manager --> change --> resident --> disk
//	                                         \-> outside (the other members, and etcd)
//
// The Manager owns the state. Its Run blocks: it carries out the steps, then keeps
// the member running until its context ends. The parts are in the packages below:
//
//	datadir   the data directory: layout, lock, marker, checks
//	pki       the CA of the cluster, and the certificates that it issues
//	member    the etcd member, a child process of this program
//	members   the list of the members, which every node follows
//	token     the text by which a node joins
//	enrol     both sides of the request to join
//	rotation  the replacement of the CA
package cluster
