// Package console has what every command shares: its streams, clock and environment,
// the exit codes, how arguments are checked, the variables of flags, and the output
// as JSON or rows. It knows no command, and reaches neither a sidecar nor etcd.
package console
