// Package staticpod runs a service as a static pod: it places the pod's manifest into the directory
// that the node's kubelet reads, and removes it (docs/roles.md#static-pod). It owns only the files
// that it placed in that directory, which begin with its mark. It starts no goroutine.
//
// A kubelet reads every file whose name does not begin with a dot, with any ending, and reads a
// file that is half written. So the driver writes a manifest under a name with a dot, syncs and
// renames it.
//
// A kubelet reports nothing. The driver knows that an instance ended only when no program listens
// at its address any more. So it first removes an instance that is to be replaced, and places the
// new manifest when connections are refused: a program that answers later is the new instance.
package staticpod
