// Package kubeaccess reads a cluster through a kubeconfig, for the commands: the rights of a user,
// the store ID of the objects, and the differences between a bundle and the cluster. It writes
// nothing, and starts no goroutine that outlives a call. A running sidecar does not use it.
package kubeaccess
