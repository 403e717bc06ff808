// Package chart tests deploy/chart with Helm's own engine, and the rendered objects with a real kube-apiserver. It
// is a module of its own, so that Helm is not a dependency of the sidecar.
package chart
