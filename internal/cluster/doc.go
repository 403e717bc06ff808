// Package cluster brings this sidecar into its etcd cluster: one that runs
// elsewhere, or one whose members the sidecars run themselves (docs/clusters.md). It
// is four ideas, one on top of the other:
//
//	Manager         the state below, and what others may follow
//	  flow          the steps into the cluster, then it is done
//	    create.go, join.go, restart.go, return.go
//	  node          after that, the life of the node in its cluster
//	    observer    asks the members how they are
//	    change      the steps by which the node becomes a member, and leaves
//	    rotating    this node in a replacement of the CA
//	  parts         what both use, each with the fields that it needs
//	    process     starts the etcd member, and waits for it
//	    sameness    keeps the directory out of another cluster
//	    signers     the other voters: certificates and the key of the CA
//	    announcer   the record of this member in etcd
//	    sharer      the servers that this node uses
//	      resident  the disk: data directory, marker, and the handle of the process
//
// A resident alone deletes and moves data while a sidecar runs, and asks the protocol before
// that; otherwise only package backup does, to restore a snapshot. A change decides nothing: it
// gathers the facts, asks the protocol for the next step, and takes it:
//
//	role.ControlPlane --> Manager --> node --> change --> resident --> disk
//	                                                  \-> outside (the other members, and etcd)
//
// Each step of a flow and of a change can be run again, so a sidecar that was killed anywhere starts
// with the first step again. A step that fails because of the network, or because a majority is
// missing, is repeated, and the status shows its problem. Any other error of a flow ends in Failed:
//
//	New --> ConnectingExternal --+
//	    \-> CreatingCluster -----+--> Running
//	    \-> JoiningCluster ------+--> Failed
//	    \-> RestartingMember ----+
//
// The Manager's Run blocks: it runs the flow, then keeps the node and its member running until its
// context ends. More is in the packages below:
//
//	datadir   the data directory: layout, lock, marker, checks
//	pki       the CA of the cluster, and the certificates that it issues
//	member    the etcd member, a child process of this program
//	members   the list of the members, which every node follows
//	token     the text by which a node joins
//	enrol     both sides of the request to join
//	quorum    the changes of the members in etcd
//	rotation  the replacement of the CA
package cluster
