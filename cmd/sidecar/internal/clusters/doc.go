// Package clusters has the commands about etcd itself: sidecar cluster, for the
// members of an etcd that the sidecars run, their tokens, snapshots and CA, and
// sidecar store, for the identity of the keys below a prefix and their deletion. How
// members change is decided in internal/cluster/quorum.
package clusters
