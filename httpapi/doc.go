// Package httpapi owns the sidecar's HTTP API, which openapi.yaml describes: the router, the health endpoints,
// /status and its stream, and the page for people. It renders every response from the newest [Snapshot], which
// package app publishes. No request causes I/O, with one exception: if [Config].Reviews is set, a request other
// than a health check may ask the kube-apiserver about its client.
//
// [New] starts nothing. [Server.Run] serves until its context ends; it owns the
// goroutines of net/http and, with TLS, one that reloads the certificate files.
// The decisions that it shows are made by package protocol.
package httpapi
