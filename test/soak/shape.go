package soak

import "time"

// shape is the size of a control plane, and the faults that happen to it.
type shape struct {
	nodes, servers int // nodes, and kube-apiservers, which they share
	members        int // of etcd, at first: on the first nodes
	// moves: the nodes run services, and their roles are moved.
	moves   bool
	lasts   time.Duration // among all other tests
	weights [nFaults]int
}

// The shapes. A fourth kube-apiserver would cost more than it shows.
var (
	usual    = shape{nodes: 4, servers: 3, members: 3, weights: externalWeights, lasts: time.Minute}
	embedded = shape{nodes: 4, servers: 3, members: 3, weights: embeddedWeights, lasts: time.Minute}
	moving   = shape{nodes: 5, servers: 2, members: 5, weights: movingWeights, moves: true, lasts: 2 * time.Minute}
)

// externalWeights are how often each kind happens, relative to the others.
var externalWeights = [nFaults]int{
	killSidecar: 3, freezeSidecar: 3, freezeWriter: 4, killWriter: 3, freezeMember: 2, killMember: 2,
	loseQuorum: 1, cutEtcd: 4, slowEtcd: 2, cutAPI: 3, slowAPI: 2,
	spoilAPI: 5, killAPI: 1, cutStore: 4, slowStore: 2, cutPeers: 3, slowPeers: 2,
	compact: 2, fillEtcd: 1, spoilRecord: 2, spoilPresence: 1,
	spoilCandidate: 1, dropCandidate: 2, spoilStatus: 2, dropStatus: 2, dropParent: 2,
	editObject: 3, dropStamp: 1, dropObject: 2,
	reloadBundle: 4, loseNode: 1, isolateNode: 1, startDuplicate: 2, denyWrites: 2, dropNamespace: 1,
	restoreStore: 1, tenant: 2, mutateWrites: 2, otherPrefix: 1, dropDefinition: 2,
}

// embeddedWeights are the same for nodes that are their own quorum. Their connections
// use no proxies: whole nodes are cut from each other.
var embeddedWeights = func() [nFaults]int {
	out := externalWeights
	for _, kind := range []faultKind{cutEtcd, slowEtcd, cutStore, slowStore, cutPeers, slowPeers} {
		out[kind] = 0
	}
	out[killMember], out[loseQuorum] = 3, 2
	out[cutNodes], out[loseSomePackets], out[loseDisk] = 10, 3, 3
	return out
}()

// movingWeights are the weights for nodes whose roles are moved: above all faults that end, pause
// and cut off nodes. Some others show too little for the time that they take.
var movingWeights = func() [nFaults]int {
	out := embeddedWeights
	for _, kind := range []faultKind{
		restoreStore, loseDisk, loseNode, isolateNode, killAPI, dropNamespace, dropDefinition, otherPrefix, tenant, mutateWrites,
	} {
		out[kind] = 0
	}
	out[killSidecar], out[freezeSidecar], out[cutNodes], out[losePower], out[killService] = 8, 6, 12, 3, 4
	out[changeServices] = 6
	return out
}()
