// Package app wires a whole sidecar from a valid configuration. It owns the order in which the
// parts start and stop, and the snapshot that package httpapi renders. It leaves the decisions of
// the protocol to package protocol. Package lockstep is its interface for other programs.
package app
