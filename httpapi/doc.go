// Package httpapi owns the sidecar's HTTP API, which openapi.yaml describes: the
// router, the health endpoints, /status and its stream, and the page for people.
// Every response is rendered from the newest [Snapshot], which package app
// publishes: no request causes I/O, except that the kube-apiserver is asked who a client is if
// [Config].Reviews is set. A health check never is the cause of that.
//
// [New] starts nothing. [Server.Run] serves until its context ends; it owns the
// goroutines of net/http and, with TLS, one that reloads the certificate files.
// The decisions that it shows are made by package protocol.
package httpapi
