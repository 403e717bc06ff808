// Package httpapi owns the sidecar's HTTP API (DESIGN 7): the router, the
// health endpoints, /status and its stream, and the page for people. It asks
// nobody: every answer is rendered from the newest [Snapshot], which package
// app fills, so no request to a probe ever causes I/O.
//
// [New] starts nothing. [Server.Run] serves until its context ends; it owns the
// goroutines of net/http and, with TLS, one that reads the certificate files
// again. The decisions that it shows are those of package protocol.
package httpapi
