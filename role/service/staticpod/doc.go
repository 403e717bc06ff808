// Package staticpod runs a service as a static pod: it places the pod's manifest into the
// directory that the node's kubelet reads, and removes it (docs/roles.md#static-pod). It owns
// the files of that directory that it placed, which begin with a line of its own, and no other.
// It starts no goroutine.
//
// A kubelet reads every file whose name does not begin with a dot, whatever its ending, and
// reads a file that is half written. So a manifest is written under a name with a dot, synced
// and renamed.
//
// A kubelet reports nothing. That an instance has ended is known only when no program listens
// any more where it did. So an instance that is to be replaced is removed first, and the new
// manifest is placed when connections are refused: what answers then is the new instance.
package staticpod
