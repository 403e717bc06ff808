// Package runflags binds the flags of sidecar run to lockstep.Options, and names the
// flag, and the variable that set it, in each problem of the options. Other commands
// use parts of it: the arguments of a sidecar in a pod of kubeadm, and the flags that
// lead to etcd. It starts nothing.
package runflags
