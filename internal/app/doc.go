// Package app wires a whole sidecar: options in, a running sidecar that a test
// can embed. It owns the order of starting and stopping, and the snapshot that
// package httpapi renders; it makes no decision of the protocol.
package app
