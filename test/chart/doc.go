// Package chart tests deploy/chart with Helm's own engine, and what it renders with a real kube-apiserver. It is
// a module of its own, so that Helm is not one of the sidecar's.
package chart
