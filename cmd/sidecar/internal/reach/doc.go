// Package reach leads a command to the sidecar that it asks, and to etcd: the flags
// for both, their clients, and an error that says where to look when one does not
// answer, with how the sidecar of this machine ended. What a command reads or writes
// there is up to the command.
package reach
